import { describe } from 'vitest'

/**
 * Tests that skip, with the reason in their title, where this machine lacks something.
 * @param lacks the reason, or the parts that are not there
 */
export function describeUnless(
  lacks: string | readonly string[] | undefined,
  title: string,
  tests: () => void | Promise<void>,
): void {
  const parts = typeof lacks === 'object' ? `needs ${lacks.join(', ')}` : lacks
  const reason = lacks?.length === 0 ? undefined : parts
  describe.skipIf(reason !== undefined)(
    reason === undefined ? title : `${title} (${reason})`,
    tests,
  )
}
