/**
 * Does work for each item, with a limited number of items at the same time. After a failure no
 * further item begins in that worker; the promise rejects with the first failure when all work that
 * began has ended.
 *
 * @example
 * const sensors: Device[] = []
 * await inParallel(details.urls, 8, async (url) => {
 *   sensors.push(...(await listSensors(url, signal)))
 * })
 * yield sensors
 */
export async function inParallel<T>(
  items: Iterable<T>,
  atOnce: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const rest = items[Symbol.iterator]()
  const worker = async () => {
    for (let next = rest.next(); !next.done; next = rest.next()) await work(next.value)
  }
  const outcomes = await Promise.allSettled(Array.from({ length: atOnce }, worker))
  const failed = outcomes.find(({ status }) => status === 'rejected')
  if (failed?.status === 'rejected') throw failed.reason
}
