// Those of the process, also while a test has timers of its own.
const { setTimeout, clearTimeout } = globalThis

const FIRST_PAUSE_MS = 1
const LONGEST_PAUSE_MS = 200

/**
 * Retries until the function does not throw: a busy machine is slow. The pauses grow, from 1 ms to
 * 200 ms: a look costs the machine time that what it waits for needs. Rejects with the last error.
 *
 * @param limitMs after which it rejects, also if the last look has not ended
 */
export async function eventually<T>(look: () => T | Promise<T>, limitMs = 120_000): Promise<T> {
  let isOver = false
  let error: unknown = new TypeError(`the first look takes more than ${limitMs} ms`)
  async function looks(): Promise<T> {
    for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(LONGEST_PAUSE_MS, pause * 1.5)) {
      try {
        return await look()
      } catch (problem) {
        error = problem
        if (isOver) throw error
      }
      await new Promise((resolve) => setTimeout(resolve, pause))
    }
  }
  let timer: NodeJS.Timeout | undefined
  const limit = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(error), limitMs)
  })
  try {
    return await Promise.race([looks(), limit])
  } finally {
    isOver = true
    clearTimeout(timer)
  }
}

/** The same while the time of a program passes by steps. */
export const passing = <T>(
  clock: { advance(ms: number): Promise<void> },
  look: () => T | Promise<T>,
  stepMs = 1000,
): Promise<T> =>
  eventually(async () => {
    await clock.advance(stepMs)
    return await look()
  })

/** More than any test needs. */
const MOST_STEPS = 2000

/**
 * Lets a clock go on by steps until the function does not throw: for work that waits for no other
 * process and no socket, and so needs no real time. Rejects with the last error.
 */
export async function inSteps<T>(
  clock: { advance(ms: number): Promise<void> },
  look: () => T | Promise<T>,
  stepMs = 500,
): Promise<T> {
  for (let step = 1; ; step++) {
    await clock.advance(stepMs)
    try {
      return await look()
    } catch (error) {
      if (step === MOST_STEPS) throw error
    }
  }
}
