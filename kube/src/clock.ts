/** The time as this package needs it: any clock with these two will do. */
export interface ApiClock {
  /** Milliseconds since the epoch. */
  now(): number
  /** Resolves after `ms`. Rejects with the signal's reason as soon as it is aborted. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>
}
