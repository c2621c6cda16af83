import { setFlagsFromString } from 'node:v8'
import { Command, CommanderError } from 'commander'
import {
  AkriError,
  handlerPlaces,
  InternalError,
  InvalidOptionError,
  messageOf,
  readableError,
} from '../errors/errors.js'
import { handlerOfError, handlerOfExit, presentStack } from '../errors/handler-code.js'
import { printableLines } from '../text/printable.js'
import { maskUrls } from '../text/secrets.js'
import { createLogger } from './create-logger.js'
import type { Logger } from './logger.js'
import { commanderOptions, type OptionSchema, type OptionsOf } from './option-schema.js'
import { outputErrorEnd } from './output-errors.js'
import { BugCounter, type ProgramContext, runInContext } from './program-context.js'
import { unsetEmpty } from './program-options.js'
import { endOnSignals, StopSignals } from './stop-signals.js'
import { holdWarnings, print, printed, redirectOutput } from './stray-output.js'
import { watchLoop } from './watch-loop.js'

export interface ProgramIdentity {
  readonly name: string
  readonly description: string
  readonly version: string
  /** The program of the thread that watches the event loop. @default no thread */
  readonly loopWatch?: URL
  /** Makes the log for a person. @default JSON lines to standard error */
  log?(options: LogOptions): Logger
}

/** The options of the log, which a program or a command can have. */
export interface LogOptions {
  readonly logLevel?: string
  readonly logFormat?: string
  readonly color?: string
}

/** What a program does, or one of its commands. */
export interface ProgramWork<Schema extends OptionSchema> {
  readonly options: Schema
  /** The meaning of each argument, in commander's notation: `<module...>`. @default none */
  readonly arguments?: Readonly<Record<string, string>>
  /** Works until it is done, or until the signal is aborted. */
  run(options: OptionsOf<Schema>, context: ProcessContext): Promise<void>
}

/** What a program has while its process runs. */
export interface ProcessContext extends ProgramContext {
  /** The positional arguments. */
  readonly args: readonly string[]
  /** Ends the program in order, as SIGINT, SIGTERM and SIGHUP do. */
  stop(): void
  /** Does work that may block, such as loading code: a signal ends the process at once. */
  mayBlock<T>(work: () => Promise<T>): Promise<T>
  /** Adds work, without waiting, for the case that a second signal or a bug ends the process. */
  onSuddenEnd(work: () => void): void
}

/** A command of a program, with options that only it knows. */
export type ProgramCommand = (parent: Command, program: ProgramIdentity) => void

export function programCommand<Schema extends OptionSchema>(
  name: string,
  description: string,
  work: ProgramWork<Schema>,
): ProgramCommand {
  return (parent, program) => addWork(parent.command(name).description(description), work, program)
}

/**
 * Runs a program until it is done or SIGINT, SIGTERM or SIGHUP comes, and ends the process: with 0
 * after a run, with 2 if an option makes no sense, else with 1. Standard error names the failure.
 * An error that nothing catches is a bug: it is logged and ends the process.
 *
 * Each line of a program is a line of its log, also failures, warnings of Node.js, and the output
 * of libraries and handlers. On a terminal, failures and output are text for a person.
 */
export async function startProgram<Schema extends OptionSchema & { readonly logLevel: unknown }>(
  program: ProgramIdentity & ProgramWork<Schema>,
): Promise<never> {
  // These programs run on each node and do little. V8 keeps less free memory in its heap then.
  setFlagsFromString('--optimize-for-size')
  const command = baseCommand(program)
  process.stdout.on('error', outputErrorEnd(program.name))
  const logWarnings = holdWarnings()
  // A person at a terminal reads failures as text.
  const failures = process.stderr.isTTY ? undefined : logRefusals(command)
  addWork(command, program, program, (log) => {
    logWarnings(log)
    if (failures !== undefined) redirectOutput(log)
  })
  return start(command, failures)
}

/**
 * Runs the command of a program that the command line names, as {@link startProgram} does. All its
 * output is for a person.
 */
export async function startCommands(
  program: ProgramIdentity,
  commands: readonly ProgramCommand[],
): Promise<never> {
  const command = baseCommand(program)
  // Also for a command line that is refused before its options are read.
  const failures = hasJsonLog() ? logRefusals(command) : undefined
  for (const add of commands) add(command, program)
  return start(command, failures)
}

/** Logs the refusal of a command line as other failures of a program. */
function logRefusals(command: Command): Logger {
  const failures = createLogger(command.name(), { level: 'error' })
  const writeErr = (text: string) => failures.error({ text: text.trim() }, 'command line refused')
  command.configureOutput({ writeErr })
  return failures
}

/** Whether `--log-format json` or its variable asks for failures as lines of JSON. */
function hasJsonLog(): boolean {
  const all = process.argv.slice(2)
  const end = all.indexOf('--')
  const args = end === -1 ? all : all.slice(0, end)
  const flags = args.flatMap((arg, index) => {
    if (arg === '--log-format') return [args[index + 1]]
    return arg.startsWith('--log-format=') ? [arg.slice('--log-format='.length)] : []
  })
  return (flags.at(-1) ?? process.env.LOG_FORMAT) === 'json'
}

function baseCommand({ name, description, version }: ProgramIdentity): Command {
  return new Command(name)
    .description(description)
    .version(version)
    .showHelpAfterError(`(${name} --help says more)`)
    .exitOverride()
}

function addWork<Schema extends OptionSchema>(
  command: Command,
  work: ProgramWork<Schema>,
  program: ProgramIdentity,
  onLog: (log: Logger) => void = () => {},
): void {
  for (const [notation, meaning] of Object.entries(work.arguments ?? {}))
    command.argument(notation, meaning)
  for (const flag of commanderOptions(work.options)) command.addOption(flag)
  command.action(async () => {
    const options = command.opts<OptionsOf<Schema> & LogOptions>()
    const bugs = new BugCounter(program)
    const level = options.logLevel
    const makeText = options.logFormat === 'json' ? undefined : program.log
    const log =
      makeText?.(options) ?? createLogger(program.name, { level, onBug: () => bugs.count() })
    onLog(log)
    const signals = new StopSignals()
    const remedy = 'isolated' in work.options ? { remedy: ISOLATED } : {}
    let isEnding = false
    if (program.loopWatch !== undefined)
      watchLoop(program.loopWatch, {
        program: program.name,
        isText: makeText !== undefined,
        ...remedy,
      })
    process.on('uncaughtException', (thrown: unknown) => {
      const error = readableError(thrown)
      signals.beforeSuddenEnd()
      const at = handlerOfError(error)
      const err = new InternalError('an error was not handled', { cause: error })
      log.error({ err, ...at, ...(at && remedy) }, 'program failed')
      isEnding = true
      process.exit(1)
    })
    process.on('exit', (code) => {
      // The call of process.exit() is on the stack.
      const at = isEnding ? undefined : handlerOfExit(presentStack())
      if (at === undefined) return
      signals.beforeSuddenEnd()
      log.error({ ...at, code, ...remedy }, 'handler ended the process')
      // The program has not done its work.
      if (code === 0) process.exitCode = 1
    })
    await runInContext({ log, signal: signals.signal, bugs }, (context) =>
      work.run(options, {
        ...context,
        args: command.args,
        stop: () => signals.stop(),
        mayBlock: (blocking) => signals.mayBlock(blocking),
        onSuddenEnd: (ending) => signals.onSuddenEnd(ending),
      }),
    ).catch((error: unknown) => {
      if (options.logFormat !== 'json') throw error
      return endWithFailure(log, error)
    })
  })
}

const ISOLATED = 'run each handler in a process of its own (--isolated)'

/** @param failures the log of failures. @default text for a person */
async function start(command: Command, failures?: Logger): Promise<never> {
  for (const { options } of [command, ...command.commands]) unsetEmpty(options)
  try {
    await command.parseAsync()
    // A handler may leave something running that would keep the process.
    return await end(0)
  } catch (error) {
    // Commander has printed its errors; --help and --version come here too, with 0.
    if (error instanceof CommanderError) return end(error.exitCode === 0 ? 0 : 2)
    if (failures !== undefined) return endWithFailure(failures, error)
    print(process.stderr, `${failureText(command.name(), error)}\n`)
    return end(exitCodeOf(error))
  }
}

function endWithFailure(log: Logger, error: unknown): Promise<never> {
  log.error({ err: error }, 'program failed')
  return end(exitCodeOf(error))
}

/** Ends the process after its output is written. An error of the output can end it before. */
async function end(code: number): Promise<never> {
  process.exitCode = code
  const streams = [process.stdout, process.stderr]
  // A reader may take no more text.
  if (streams.some(({ writableLength }) => writableLength > 0)) endOnSignals()
  await Promise.all(streams.map(printed))
  process.exit(code)
}

function exitCodeOf(error: unknown): number {
  return InvalidOptionError.is(error) ? 2 : 1
}

/** A failure of a program for a person; an error that nothing expects has its stack. */
export function failureText(program: string, error: unknown): string {
  const isUnexpected = !AkriError.is(error) && error instanceof Error
  const places = isUnexpected ? [error.stack ?? ''] : handlerPlaces(error)
  return printableLines(maskUrls([`${program}: ${messageOf(error)}`, ...places].join('\n')))
}
