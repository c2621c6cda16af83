/**
 * The CPU time of this process so far, in milliseconds: the cost of work, however busy the machine
 * is.
 */
export function processorMs(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}

/**
 * The least CPU time of three rounds of some work, in milliseconds: on a busy machine, processors
 * with shared caches and threads of the garbage collector make the same work cost several times as
 * much.
 */
export async function leastProcessorMs(work: () => unknown): Promise<number> {
  let least = Number.POSITIVE_INFINITY
  for (let round = 0; round < 3; round++) {
    const begun = processorMs()
    await work()
    least = Math.min(least, processorMs() - begun)
  }
  return least
}
