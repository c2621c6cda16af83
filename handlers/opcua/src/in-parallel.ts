/** Does something with each, so many at a time at most. Rejects with the first failure, when the others under way are over. */
export async function inParallel<T>(
  items: Iterable<T>,
  atMost: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const rest = items[Symbol.iterator]()
  const worker = async () => {
    for (let next = rest.next(); !next.done; next = rest.next()) await work(next.value)
  }
  const outcomes = await Promise.allSettled(Array.from({ length: atMost }, worker))
  const failed = outcomes.find(({ status }) => status === 'rejected')
  if (failed?.status === 'rejected') throw failed.reason
}
