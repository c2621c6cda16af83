import { Counter, Gauge, Registry } from 'prom-client'
import { Closer } from '../flow/closer.js'
import { type HealthServerOptions, serveHealth } from './health-server.js'
import type { Logger } from './logger.js'

/** What every program has while it runs. */
export interface ProgramContext {
  readonly log: Logger
  /** Aborted when the program has to end. */
  readonly signal: AbortSignal
  /** Closed after the program's work, also after a failure. */
  readonly closer: Closer
  /**
   * Serves `/healthz`, `/readyz` and `/metrics` until the closer closes them. `/metrics` also
   * counts the program's bugs.
   * @returns the port, which is another one if the wanted port cannot be opened; undefined if none
   * can
   */
  serveHealth(options: HealthServerOptions): Promise<number | undefined>
}

export interface ContextOptions {
  readonly log: Logger
  readonly signal: AbortSignal
  /** The bugs that the log counts. @default none */
  readonly bugs?: BugCounter
}

/** Counts the logged errors that are bugs, for `/metrics`, which also name the program. */
export class BugCounter {
  readonly registry = new Registry()
  readonly #counter = new Counter({
    name: 'akri_internal_errors_total',
    help: 'Logged errors that are mistakes in akri.js or in a handler',
    registers: [this.registry],
  })

  /** @param program for `akri_build_info`. @default there is no such metric */
  constructor(program?: { readonly name: string; readonly version: string }) {
    if (program === undefined) return
    const build = new Gauge({
      name: 'akri_build_info',
      help: 'The program, its version and that of Node.js; always 1',
      labelNames: ['program', 'version', 'node_version'],
      registers: [this.registry],
    })
    const { name, version } = program
    build.set({ program: name, version, node_version: process.versions.node }, 1)
  }

  count(): void {
    this.#counter.inc()
  }
}

/** Makes the context of a program. The caller closes its closer. */
export function createContext({
  log,
  signal,
  bugs = new BugCounter(),
}: ContextOptions): ProgramContext {
  const closer = new Closer()
  return {
    log,
    signal,
    closer,
    async serveHealth(options) {
      const metrics = async () => `${await options.metrics()}\n${await bugs.registry.metrics()}`
      const health = await serveHealth({ ...options, metrics }, { log })
      closer.add(() => health.close())
      return health.port
    },
  }
}

/** Runs work in the context of a program, and closes what the work opened. */
export async function runInContext(
  options: ContextOptions,
  work: (context: ProgramContext) => Promise<void>,
): Promise<void> {
  const context = createContext(options)
  try {
    await work(context)
  } finally {
    await context.closer.close()
  }
}
