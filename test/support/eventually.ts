import { vi } from 'vitest'

/** Until it does not throw, for 45 s at most: a machine with much to do takes its time. Rejects with the last error. */
export function eventually<T>(look: () => T | Promise<T>): Promise<T> {
  return vi.waitFor(look, { timeout: 45_000, interval: 20 })
}
