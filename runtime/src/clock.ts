/** The only way to the time, so that tests need no sleeping. */
export interface Clock {
  /**
   * Milliseconds since the epoch, as if nobody had set the machine's clock since the program started: for how long something took
   * or is to last. A machine without a battery for its clock sets it by years, minutes after it has started.
   */
  monotonicMs(): number
  /** Milliseconds since the epoch by the machine's clock: for what others read, or have written. */
  wallMs(): number
  /** Resolves after `ms`. Rejects with the signal's reason as soon as it is aborted. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>
}

export const systemClock: Clock = {
  monotonicMs: () => Math.trunc(performance.timeOrigin + performance.now()),
  wallMs: () => Date.now(),
  sleep: (ms, signal) =>
    new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason)
      const stop = () => {
        clearTimeout(timer)
        reject(signal?.reason)
      }
      const timer = setTimeout(() => {
        signal?.removeEventListener('abort', stop)
        resolve()
      }, ms)
      signal?.addEventListener('abort', stop, { once: true })
    }),
}
