import { expect, it } from 'vitest'
import { inTurns } from './turns.js'

/** Long work of many steps. @returns its number in the order of the ends */
async function work(ms: number, ended: () => number): Promise<number> {
  for await (const _ of inTurns(Array.from({ length: ms }))) {
    for (const until = performance.now() + 1; performance.now() < until; );
  }
  return ended()
}

/** The iterations of the event loop during work. */
async function iterations(works: Promise<unknown>): Promise<number> {
  let count = 0
  let isDone = false
  const done = works.finally(() => {
    isDone = true
  })
  while (!isDone) {
    count++
    await new Promise((resolve) => setImmediate(resolve))
  }
  await done
  return count
}

it('long work, also of many callers, has 5 ms in each turn of the event loop', async () => {
  let count = 0
  const ended = () => count++
  // Steps of a millisecond, which a busy machine can interrupt: at most six in a turn, as work
  // that waited asks after its first step. The iteration in which all ends is not counted.
  expect(await iterations(work(100, ended))).toBeGreaterThanOrEqual(16)
  expect(
    await iterations(Promise.all(Array.from({ length: 30 }, () => work(10, ended)))),
  ).toBeGreaterThanOrEqual(49)
})

it('short work does not wait for the end of long work', async () => {
  let count = 0
  const ended = () => count++
  const long = work(100, ended)
  const short = work(5, ended)
  expect(await Promise.all([long, short])).toEqual([1, 0])
})
