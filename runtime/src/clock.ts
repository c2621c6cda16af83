/** The only source of time, so that tests need not sleep. */
export interface Clock {
  /**
   * Milliseconds since the epoch, without the changes of the machine's clock since the program
   * started: for durations. A machine without a battery sets its clock by years, minutes after it
   * has started.
   */
  monotonicMs(): number
  /**
   * Milliseconds since the epoch by the machine's clock: for times that other programs read or have
   * written.
   */
  wallMs(): number
  /**
   * Waits. Rejects with the reason of the signal when the signal is aborted.
   * @param ms the time, in milliseconds
   */
  sleep(ms: number, signal?: AbortSignal): Promise<void>
}

/** Runs `work` after `ms`, unless the signal is aborted first. */
export function runAfter(
  clock: Pick<Clock, 'sleep'>,
  ms: number,
  signal: AbortSignal,
  work: () => void,
): void {
  clock.sleep(ms, signal).then(work, () => undefined)
}

/** The clock of the machine. */
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
