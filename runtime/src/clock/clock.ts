import { checkWait, MAX_TIMER_MS } from './interval.js'

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
   * @param ms the time, in milliseconds. `Infinity` waits for the signal.
   * @param options as those of a timer of Node.js
   * @throws InvalidIntervalError if the time is no number
   */
  sleep(
    ms: number,
    signal?: AbortSignal,
    options?: {
      /** With false, the wait does not keep the process running. @default true */
      readonly ref?: boolean
    },
  ): Promise<void>
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
  sleep: (ms, signal, { ref = true } = {}) =>
    new Promise((resolve, reject) => {
      let rest = checkWait(ms)
      if (signal?.aborted) return reject(signal.reason)
      let timer: NodeJS.Timeout | undefined
      const stop = () => {
        clearTimeout(timer)
        reject(signal?.reason)
      }
      // A timer has a longest time: a longer wait takes several.
      const wait = () => {
        const part = Math.min(rest, MAX_TIMER_MS)
        rest -= part
        timer = setTimeout(rest > 0 ? wait : end, part)
        if (!ref) timer.unref()
      }
      const end = () => {
        signal?.removeEventListener('abort', stop)
        resolve()
      }
      wait()
      signal?.addEventListener('abort', stop, { once: true })
    }),
}
