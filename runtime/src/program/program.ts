import { Command, CommanderError } from 'commander'
import { Counter, Registry } from 'prom-client'
import { Closer } from '../closer.js'
import { AkriError, InternalError, messageOf } from '../errors.js'
import type { Logger } from '../logger.js'
import { createLogger } from './create-logger.js'
import { type HealthServerOptions, serveHealth } from './health-server.js'
import { commanderOptions, type OptionSchema, type OptionsOf } from './option-schema.js'
import { unsetEmpty } from './program-options.js'

export interface Program<Schema extends OptionSchema> {
  readonly name: string
  readonly description: string
  readonly version: string
  readonly options: Schema
  /** The positional arguments, in commander's notation: `<module...>`. @default none */
  readonly argument?: string
  /** Does the program's work until the signal is aborted. */
  run(options: OptionsOf<Schema>, context: ProgramContext): Promise<void>
}

/** What every program has while it runs. */
export interface ProgramContext {
  readonly args: readonly string[]
  readonly log: Logger
  /** Aborted by SIGINT and SIGTERM. */
  readonly signal: AbortSignal
  /** Closed after `run`, also after a failure. */
  readonly closer: Closer
  /**
   * Serves `/healthz`, `/readyz` and `/metrics` until the closer comes to it; `/metrics` also counts the program's bugs.
   * @returns the port
   */
  serveHealth(options: HealthServerOptions): Promise<number>
}

/** Runs work in the context of a program, and closes what the work opened. */
export async function runInContext(
  {
    args = [],
    log,
    signal,
    bugs = new Registry(),
  }: Partial<ProgramContext> &
    Pick<ProgramContext, 'log' | 'signal'> & { readonly bugs?: Registry },
  work: (context: ProgramContext) => Promise<void>,
): Promise<void> {
  const closer = new Closer()
  try {
    await work({
      args,
      log,
      signal,
      closer,
      async serveHealth(options) {
        const metrics = async () => `${await options.metrics()}\n${await bugs.metrics()}`
        const health = await serveHealth({ ...options, metrics })
        closer.add(() => health.close())
        return health.port
      },
    })
  } finally {
    await closer.close()
  }
}

/**
 * Runs a program until SIGINT or SIGTERM, and ends the process: with 0 after a run, with 2 if an option makes no sense,
 * else with 1. Standard error names the failure. An error that nothing catches is a bug: it is logged and ends the process.
 */
export async function startProgram<Schema extends OptionSchema & { readonly logLevel: unknown }>(
  program: Program<Schema>,
): Promise<never> {
  const { name, description, version, options, argument, run } = program
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
    const stop = new AbortController()
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort())
    const bugs = new Registry()
    const counter = new Counter({
      name: 'akri_internal_errors_total',
      help: 'Logged errors that are mistakes in akri.js or in a handler',
      registers: [bugs],
    })
    const log = createLogger(name, { level: parsed.logLevel, onBug: () => counter.inc() })
    process.on('uncaughtException', (error) => {
      log.error(
        { err: new InternalError('an error was not handled', { cause: error }) },
        'program failed',
      )
      process.exit(1)
    })
    await runInContext({ args: command.args, log, signal: stop.signal, bugs }, (context) =>
      run(parsed, context),
    )
    // A handler may leave something running that would keep the process.
    process.exit(0)
  } catch (error) {
    // Commander has printed its errors; --help and --version come here too, with 0.
    if (error instanceof CommanderError) process.exit(error.exitCode === 0 ? 0 : 2)
    process.stderr.write(`${name}: ${messageOf(error)}\n`)
    if (!AkriError.is(error) && error instanceof Error) process.stderr.write(`${error.stack}\n`)
    process.exit(1)
  }
}
