import type { ReconcileResult } from '@akrijs/kube'

/**
 * The longest wait before a key is reconciled again, in milliseconds. Another program may have
 * written a time in the far future, and a timer of more than 24 days fires at once.
 */
const MAX_WAIT_MS = 3_600_000

/** Reconciles the key again at a time by `monotonicMs`; undefined: not by time. */
export function requeueAt(time: number | undefined, now: number): ReconcileResult {
  return time === undefined
    ? {}
    : { requeueAfterMs: Math.min(MAX_WAIT_MS, Math.max(0, time - now)) }
}

/** The earliest of the times that are defined. */
export function earliest(...times: readonly (number | undefined)[]): number | undefined {
  const defined = times.filter((time) => time !== undefined)
  return defined.length > 0 ? Math.min(...defined) : undefined
}
