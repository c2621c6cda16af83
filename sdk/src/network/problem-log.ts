import type { Logger } from '@akrijs/runtime'

/** Logs each problem once, until it is resolved. */
export class ProblemLog {
  readonly #log: Logger
  readonly #open = new Set<string>()

  constructor(log: Logger) {
    this.#log = log
  }

  report(key: string, fields: Readonly<Record<string, unknown>>, message: string): void {
    if (this.#open.has(key)) return
    this.#open.add(key)
    this.#log.warn(fields, message)
  }

  resolve(key: string): void {
    this.#open.delete(key)
  }
}
