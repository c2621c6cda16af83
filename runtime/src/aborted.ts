/** Resolves when the signal is aborted. The listener is removed when `until` is aborted. */
export function aborted(signal: AbortSignal, until?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve()
    signal.addEventListener(
      'abort',
      () => resolve(),
      until === undefined ? { once: true } : { once: true, signal: until },
    )
  })
}
