import { vi } from 'vitest'

/**
 * Retries until the function does not throw, for 45 s at most, because a busy machine is slow.
 * Rejects with the last error.
 */
export function eventually<T>(look: () => T | Promise<T>): Promise<T> {
  return vi.waitFor(look, { timeout: 45_000, interval: 20 })
}
