/** A timer of at most so long goes on as it is: those of requests and of the Lease. */
const LONG_MS = 60_000

/**
 * The environment of a program whose monotonic clock goes ahead by a time at SIGUSR2. What has to
 * be done in that time is due at once.
 */
export function clockThatJumps(byMs: number): { readonly NODE_OPTIONS: string } {
  const script = `
    const { setTimeout: start } = globalThis
    const now = performance.now.bind(performance)
    const waiting = new Map()
    let ahead = 0
    performance.now = () => now() + ahead
    globalThis.setTimeout = (work, ms, ...values) => {
      const timer = start(() => { waiting.delete(timer); work(...values) }, ms)
      if (ms > ${LONG_MS} && ms <= ${byMs}) waiting.set(timer, () => work(...values))
      return timer
    }
    process.on('SIGUSR2', () => {
      ahead += ${byMs}
      for (const [timer, work] of waiting) {
        waiting.delete(timer)
        if (timer._destroyed) continue
        clearTimeout(timer)
        work()
      }
    })`
  return { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(script)}` }
}
