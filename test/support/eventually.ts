// Those of the process, also while a test has timers of its own.
const { setTimeout, clearTimeout } = globalThis

const LIMIT_MS = 45_000
const FIRST_PAUSE_MS = 20
const LONGEST_PAUSE_MS = 200

/**
 * Retries until the function does not throw, for 45 s at most, because a busy machine is slow. The
 * pauses grow, from 20 ms to 200 ms: a look costs the machine time that what it waits for needs.
 * Rejects with the last error.
 */
export async function eventually<T>(look: () => T | Promise<T>): Promise<T> {
  let isOver = false
  let error: unknown = new Error(`the first look takes more than ${LIMIT_MS} ms`)
  async function looks(): Promise<T> {
    for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(LONGEST_PAUSE_MS, pause * 1.25)) {
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
    timer = setTimeout(() => reject(error), LIMIT_MS)
  })
  try {
    return await Promise.race([looks(), limit])
  } finally {
    isOver = true
    clearTimeout(timer)
  }
}
