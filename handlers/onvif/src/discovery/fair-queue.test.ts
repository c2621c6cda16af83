import { describe, expect, it } from 'vitest'
import { FairQueue } from './fair-queue.js'

describe('a fair queue', () => {
  it('runs so many at once, so many of one key, and every key in turn', async () => {
    const queue = new FairQueue({ atOnce: 3, perKey: 2 })
    const running = new Map<string, () => void>()
    const add = (key: string, name: string) =>
      queue.add(key, () => new Promise((resolve) => void running.set(name, resolve)))
    const finish = async (name: string) => {
      running.get(name)?.()
      running.delete(name)
      await new Promise((resolve) => setImmediate(resolve))
    }
    for (const name of ['a1', 'a2', 'a3', 'a4']) add('a', name)
    for (const name of ['b1', 'b2']) add('b', name)
    add('c', 'c1')
    expect([...running.keys()]).toEqual(['a1', 'a2', 'b1'])
    await finish('a1')
    expect([...running.keys()]).toEqual(['a2', 'b1', 'a3'])
    await finish('b1')
    expect([...running.keys()]).toEqual(['a2', 'a3', 'b2'])
    let idle = false
    const ended = queue.idle().then(() => {
      idle = true
    })
    for (const name of ['a2', 'b2', 'a3', 'c1']) await finish(name)
    expect(idle).toBe(false)
    await finish('a4')
    await ended
    await queue.idle()
  })
})
