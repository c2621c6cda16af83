/** The time as this package needs it: any clock with these three will do. */
export interface ApiClock {
  /** Milliseconds since the epoch, as if nobody had set the machine's clock meanwhile: for how long something takes. */
  now(): number
  /** Milliseconds since the epoch by the machine's clock: for what others read. */
  time(): number
  /** Resolves after `ms`. Rejects with the signal's reason as soon as it is aborted. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>
}
