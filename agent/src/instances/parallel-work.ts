import { inTurns } from '@akrijs/runtime'

/** How many Instances of one Configuration are reconciled at the same time. */
const CONCURRENCY = 16

/**
 * Works on all items, a few at a time, until `goesOn` returns false. A failure does not stop the
 * others.
 * @returns the failures
 */
export async function inParallel<T>(
  items: readonly T[],
  work: (item: T) => Promise<unknown>,
  goesOn: () => boolean = () => true,
): Promise<unknown[]> {
  const queue = items.values()
  const failures: unknown[] = []
  const worker = async () => {
    for await (const item of inTurns(queue)) {
      if (!goesOn()) return
      await work(item).catch((error: unknown) => failures.push(error))
    }
  }
  await Promise.all(Array.from({ length: Math.min(CONCURRENCY, items.length) }, worker))
  return failures
}

export function throwFirst(failures: readonly unknown[]): void {
  if (failures.length > 0) throw failures[0]
}
