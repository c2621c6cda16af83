import { backoff, type Clock } from '@akrijs/runtime'

interface RetryOptions {
  readonly clock: Clock
  readonly signal: AbortSignal
  /** Logs a failure. */
  onFailure(fields: { readonly err: unknown; readonly retryInMs: number }): void
}

/** Repeats work with a back-off until it succeeds, or until the signal is aborted. */
export async function retry(
  work: () => unknown,
  { clock, signal, onFailure }: RetryOptions,
): Promise<void> {
  for (const retryInMs of backoff()) {
    try {
      await work()
      return
    } catch (err) {
      onFailure({ err, retryInMs })
    }
    await clock.sleep(retryInMs, signal).catch(() => undefined)
    if (signal.aborted) return
  }
}
