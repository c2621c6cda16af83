/**
 * The turns of the event loop that some work takes on a machine where each look at the time finds
 * one millisecond more: long work asks before each of its steps whether its turn of 5 ms is over.
 */
export async function turnsOf(work: () => Promise<unknown>): Promise<number> {
  const { now } = performance
  const turn = () => new Promise((resolve) => setImmediate(resolve))
  // The turn of earlier work ends.
  await turn()
  let time = now.call(performance)
  performance.now = () => ++time
  try {
    let turns = 0
    let isDone = false
    const done = work().finally(() => {
      isDone = true
    })
    while (!isDone) {
      turns++
      await turn()
    }
    await done
    return turns
  } finally {
    performance.now = now
    await turn()
  }
}
