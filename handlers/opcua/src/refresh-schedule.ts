import type { Clock } from '@akrijs/sdk'

export interface RefreshScheduleOptions {
  readonly clock: Pick<Clock, 'monotonicMs'>
  /** How long a value is valid, and the longest wait before a retry, in milliseconds. */
  readonly refreshMs: number
  /** The wait after the first failure, in milliseconds; each further failure doubles the wait. */
  readonly retryMs: number
  /** Known servers to read again in one round: a bound makes all rounds cost the same. */
  readonly maxRefreshes: number
}

interface Entry<Value> {
  readonly value?: Value | undefined
  /** Time of the last success. */
  readonly answeredAt: number
  readonly dueAt: number
  /** Failures since the last success. */
  readonly failures: number
}

/** The last value that was read from each server, and when to read it again. */
export class RefreshSchedule<Value> {
  readonly #options: RefreshScheduleOptions
  readonly #entries = new Map<string, Entry<Value>>()

  constructor(options: RefreshScheduleOptions) {
    this.#options = options
  }

  /** Undefined until the first attempt ended. A failure keeps the value of the last success. */
  get(discoveryUrl: string): Entry<Value> | undefined {
    return this.#entries.get(discoveryUrl)
  }

  /** The servers to read in this round: all new ones, then the most overdue. Forgets all others. */
  takeDue<Server>(servers: readonly Server[], urlOf: (server: Server) => string): Server[] {
    const urls = new Set(servers.map(urlOf))
    for (const url of this.#entries.keys()) if (!urls.has(url)) this.#entries.delete(url)
    const now = this.#options.clock.monotonicMs()
    const dueAt = (server: Server) => this.#entries.get(urlOf(server))?.dueAt ?? now
    const isNew = (server: Server) => !this.#entries.has(urlOf(server))
    const overdue = servers
      .filter((server) => !isNew(server) && dueAt(server) <= now)
      .sort((a, b) => dueAt(a) - dueAt(b))
    return [...servers.filter(isNew), ...overdue.slice(0, this.#options.maxRefreshes)]
  }

  succeed(discoveryUrl: string, value: Value): void {
    const { clock, refreshMs } = this.#options
    const answeredAt = clock.monotonicMs()
    const dueAt = answeredAt + refreshMs
    this.#entries.set(discoveryUrl, { value, answeredAt, dueAt, failures: 0 })
  }

  /** @returns the number of failures in a row */
  fail(discoveryUrl: string): number {
    const { clock, refreshMs, retryMs } = this.#options
    const { failures = 0, ...rest } = this.#entries.get(discoveryUrl) ?? {}
    const dueAt = clock.monotonicMs() + Math.min(refreshMs, retryMs * 2 ** failures)
    const answeredAt = Number.NEGATIVE_INFINITY
    this.#entries.set(discoveryUrl, { answeredAt, ...rest, dueAt, failures: failures + 1 })
    return failures + 1
  }
}
