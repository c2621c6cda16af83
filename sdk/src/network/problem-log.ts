import type { Logger } from '@akrijs/runtime'

/** Logs each problem once, until it is resolved. */
export class ProblemLog {
  readonly #log: Logger
  readonly #open = new Set<string>()

  constructor(log: Logger) {
    this.#log = log
  }

  /**
   * Logs a problem at level warn, unless it is open already.
   * @param key identifies the problem, such as the address of its device
   */
  report(key: string, fields: Readonly<Record<string, unknown>>, message: string): void {
    if (this.#open.has(key)) return
    this.#open.add(key)
    this.#log.warn(fields, message)
  }

  /** Ends a problem: the next report of its key is logged again. */
  resolve(key: string): void {
    this.#open.delete(key)
  }
}
