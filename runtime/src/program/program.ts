import { Command, CommanderError } from 'commander'
import { AkriError, InternalError, messageOf } from '../errors.js'
import { printableLines } from '../printable.js'
import { createLogger } from './create-logger.js'
import { commanderOptions, type OptionSchema, type OptionsOf } from './option-schema.js'
import { BugCounter, type ProgramContext, runInContext } from './program-context.js'
import { unsetEmpty } from './program-options.js'

export interface Program<Schema extends OptionSchema> {
  readonly name: string
  readonly description: string
  readonly version: string
  readonly options: Schema
  /** The positional arguments, in commander's notation: `<module...>`. @default none */
  readonly argument?: string
  /**
   * Loads code that may block. SIGINT and SIGTERM end the process at once until it has loaded.
   * @default nothing
   */
  prepare?(options: OptionsOf<Schema>, args: readonly string[]): Promise<void>
  /** Does the program's work until the signal is aborted. */
  run(options: OptionsOf<Schema>, context: ProgramContext): Promise<void>
}

/**
 * Runs a program until SIGINT or SIGTERM, and ends the process: with 0 after a run, with 2 if an
 * option makes no sense, else with 1. Standard error names the failure. An error that nothing
 * catches is a bug: it is logged and ends the process.
 */
export async function startProgram<Schema extends OptionSchema & { readonly logLevel: unknown }>(
  program: Program<Schema>,
): Promise<never> {
  const { name, description, version, options, argument } = program
  const command = new Command(name)
    .description(description)
    .version(version)
    .showHelpAfterError(`(${name} --help says more)`)
    .exitOverride()
  if (argument !== undefined) command.argument(argument)
  const flags = commanderOptions(options)
  for (const flag of flags) command.addOption(flag)
  unsetEmpty(flags)
  try {
    const parsed = command.parse().opts<OptionsOf<Schema> & { readonly logLevel: string }>()
    await program.prepare?.(parsed, command.args)
    const stop = new AbortController()
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort())
    const bugs = new BugCounter()
    const log = createLogger(name, { level: parsed.logLevel, onBug: () => bugs.count() })
    process.on('uncaughtException', (error) => {
      log.error(
        { err: new InternalError('an error was not handled', { cause: error }) },
        'program failed',
      )
      process.exit(1)
    })
    await runInContext({ args: command.args, log, signal: stop.signal, bugs }, (context) =>
      program.run(parsed, context),
    )
    // A handler may leave something running that would keep the process.
    process.exit(0)
  } catch (error) {
    // Commander has printed its errors; --help and --version come here too, with 0.
    if (error instanceof CommanderError) process.exit(error.exitCode === 0 ? 0 : 2)
    process.stderr.write(`${name}: ${printableLines(messageOf(error))}\n`)
    if (!AkriError.is(error) && error instanceof Error)
      process.stderr.write(`${printableLines(error.stack ?? '')}\n`)
    process.exit(1)
  }
}
