/** Resolves when the signal is aborted; listens only until `until` is. */
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
