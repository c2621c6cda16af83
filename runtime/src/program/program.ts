import { Command, CommanderError } from 'commander'
import { AkriError, InternalError, InvalidOptionError, messageOf } from '../errors.js'
import type { Logger } from '../logger.js'
import { printableLines } from '../printable.js'
import { createLogger } from './create-logger.js'
import { commanderOptions, type OptionSchema, type OptionsOf } from './option-schema.js'
import { BugCounter, type ProgramContext, runInContext } from './program-context.js'
import { unsetEmpty } from './program-options.js'
import { StopSignals } from './stop-signals.js'

export interface ProgramIdentity {
  readonly name: string
  readonly description: string
  readonly version: string
  /** Makes the log. @default JSON lines to standard error */
  log?(level: string | undefined): Logger
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
 */
export async function startProgram<Schema extends OptionSchema & { readonly logLevel: unknown }>(
  program: ProgramIdentity & ProgramWork<Schema>,
): Promise<never> {
  const command = baseCommand(program)
  addWork(command, program, program)
  return start(command)
}

/** Runs the command of a program that the command line names, as {@link startProgram} does. */
export async function startCommands(
  program: ProgramIdentity,
  commands: readonly ProgramCommand[],
): Promise<never> {
  const command = baseCommand(program)
  for (const add of commands) add(command, program)
  return start(command)
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
): void {
  for (const [notation, meaning] of Object.entries(work.arguments ?? {}))
    command.argument(notation, meaning)
  for (const flag of commanderOptions(work.options)) command.addOption(flag)
  command.action(async () => {
    const options = command.opts<OptionsOf<Schema> & { readonly logLevel?: string }>()
    const bugs = new BugCounter()
    const level = options.logLevel
    const log =
      program.log?.(level) ?? createLogger(program.name, { level, onBug: () => bugs.count() })
    const signals = new StopSignals()
    process.on('uncaughtException', (error) => {
      signals.beforeSuddenEnd()
      log.error(
        { err: new InternalError('an error was not handled', { cause: error }) },
        'program failed',
      )
      process.exit(1)
    })
    await runInContext({ log, signal: signals.signal, bugs }, (context) =>
      work.run(options, {
        ...context,
        args: command.args,
        stop: () => signals.stop(),
        mayBlock: (blocking) => signals.mayBlock(blocking),
        onSuddenEnd: (ending) => signals.onSuddenEnd(ending),
      }),
    )
  })
}

async function start(command: Command): Promise<never> {
  for (const { options } of [command, ...command.commands]) unsetEmpty(options)
  try {
    await command.parseAsync()
    // A handler may leave something running that would keep the process.
    process.exit(0)
  } catch (error) {
    // Commander has printed its errors; --help and --version come here too, with 0.
    if (error instanceof CommanderError) process.exit(error.exitCode === 0 ? 0 : 2)
    process.stderr.write(`${command.name()}: ${printableLines(messageOf(error))}\n`)
    if (!AkriError.is(error) && error instanceof Error)
      process.stderr.write(`${printableLines(error.stack ?? '')}\n`)
    process.exit(InvalidOptionError.is(error) ? 2 : 1)
  }
}
