import { Command, CommanderError, type Option } from 'commander'
import { createLogger } from './create-logger.js'
import { AkriError, messageOf } from './errors.js'
import type { Logger } from './logger.js'
import { unsetEmpty } from './program-options.js'

export interface Program<Options> {
  readonly name: string
  readonly description: string
  readonly version: string
  readonly options: readonly Option[]
  /** Does what the program is there for, until the signal is aborted. */
  run(options: Options, own: { readonly log: Logger; readonly signal: AbortSignal }): Promise<void>
}

/**
 * Runs a program until SIGINT or SIGTERM, and ends the process: with 0 where it has done so, with 2 where an option makes no
 * sense, else with 1. What went wrong stands on standard error; with its stack, where it is none of the errors that are known.
 */
export async function runProgram<Options extends { readonly logLevel: string }>(program: Program<Options>): Promise<never> {
  const { name, description, version, options, run } = program
  const command = new Command(name)
    .description(description)
    .version(version)
    .showHelpAfterError(`(${name} --help says more)`)
    .exitOverride()
  for (const option of options) command.addOption(option)
  unsetEmpty(options)
  try {
    const given = command.parse().opts<Options>()
    const stop = new AbortController()
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort())
    await run(given, { log: createLogger(name, given.logLevel), signal: stop.signal })
    // What a handler may have left running must not keep the program.
    process.exit(0)
  } catch (error) {
    // It has been told already; --help and --version come here too, with 0.
    if (error instanceof CommanderError) process.exit(error.exitCode === 0 ? 0 : 2)
    process.stderr.write(`${name}: ${messageOf(error)}\n`)
    if (!AkriError.is(error) && error instanceof Error) process.stderr.write(`${error.stack}\n`)
    process.exit(1)
  }
}
