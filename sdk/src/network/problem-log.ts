import type { Logger } from '@akrijs/runtime'

/**
 * Logs each problem once, until it is resolved.
 *
 * @example
 * const problems = new ProblemLog(log)
 * for await (const _ of every('10s', { signal }))
 *   try {
 *     yield await listSensors(details.url, signal)
 *     problems.resolve(details.url)
 *   } catch (err) {
 *     problems.report(details.url, { err }, 'the hub does not answer')
 *   }
 */
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
