/** Some work, of about fifty milliseconds on a processor of 2024. */
function fixedWork(): void {
  const numbers = Array.from({ length: 120_000 }, (_, index) => (index * 7919) % 120_011)
  const texts = numbers.map((number) => `n${number.toString(36)}`).sort()
  if (!texts.join(' ').includes('n1')) throw new Error('unreachable')
}
const FIXED_UNITS = 50
const ROUNDS = 3

async function processorMsOf(work: () => unknown): Promise<number> {
  const before = process.cpuUsage()
  await work()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1000
}

/**
 * What some work costs beside a fixed work in the same process: about the milliseconds of a
 * processor of 2024, on a machine of any speed and load. The least of three rounds counts: on a
 * busy machine, shared caches and threads of the garbage collector make the same work cost several
 * times as much.
 */
export async function costOf(work: () => unknown): Promise<number> {
  let least = Number.POSITIVE_INFINITY
  for (let round = 0; round < ROUNDS; round++) {
    const unit = (await processorMsOf(fixedWork)) / FIXED_UNITS
    least = Math.min(least, (await processorMsOf(work)) / unit)
  }
  return least
}
