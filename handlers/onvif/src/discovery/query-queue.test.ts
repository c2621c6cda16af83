import { setImmediate as turn } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { QueryQueue } from './query-queue.js'

/** A queue with queries that run until they are ended. */
function queueWith(count: number, sourceOf: (n: number) => string) {
  const queue = new QueryQueue()
  const running: string[] = []
  const ends = new Map<string, () => void>()
  for (let n = 0; n < count; n++) {
    const id = `query ${n}`
    queue.run(id, sourceOf(n), () => {
      running.push(id)
      return new Promise((resolve) => ends.set(id, resolve))
    })
  }
  const end = async (id: string) => {
    ends.get(id)?.()
    await turn()
  }
  return { queue, running, end }
}

it('runs 16 queries at a time, and 4 more that are hastened', async () => {
  const { queue, running, end } = queueWith(30, (n) => `10.0.0.${n}`)
  expect(running).toHaveLength(16)
  for (const n of [3, 25, 26, 27, 28, 29, 25]) queue.hasten(`query ${n}`)
  expect(running.slice(16)).toEqual(['query 25', 'query 26', 'query 27', 'query 28'])
  // A hastened query takes the first free place of either kind; each query runs once.
  await end('query 25')
  await end('query 0')
  expect(running.slice(20)).toEqual(['query 29', 'query 16'])
  for (const id of running) await end(id)
  await queue.idle()
  expect(running).toHaveLength(30)
  expect(new Set(running).size).toBe(30)
})

it('runs 2 queries of an address at a time, and 1 more that is hastened', async () => {
  const { queue, running, end } = queueWith(5, () => '10.0.0.1')
  for (const n of [3, 4]) queue.hasten(`query ${n}`)
  expect(running).toEqual(['query 0', 'query 1', 'query 3'])
  await end('query 3')
  expect(running.slice(3)).toEqual(['query 4'])
  for (const id of running) await end(id)
  await queue.idle()
  expect(running).toHaveLength(5)
})
