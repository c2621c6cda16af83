import { describe, expect, it } from 'vitest'
import { FairQueue } from './fair-queue.js'

/** Runs the callbacks of promises that are settled. */
const settled = () => new Promise((resolve) => setImmediate(resolve))

/** Tasks that run until the test ends them. */
function open() {
  const running: string[] = []
  const ends = new Map<string, (error?: Error) => void>()
  const work = (name: string) => () =>
    new Promise<void>((resolve, reject) => {
      running.push(name)
      ends.set(name, (error) => {
        running.splice(running.indexOf(name), 1)
        if (error === undefined) resolve()
        else reject(error)
      })
    })
  return { running, work, end: (name: string, error?: Error) => ends.get(name)?.(error) }
}

describe('a fair queue', () => {
  it('limits the tasks at once and the tasks of a key, and takes each key in turn', async () => {
    const queue = new FairQueue({ atOnce: 3, perKey: 2 })
    const running = new Map<string, () => void>()
    const add = (key: string, name: string) =>
      void queue.run(key, () => new Promise<void>((resolve) => void running.set(name, resolve)))
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

  it('starts the next task when a task has ended or failed', async () => {
    const queue = new FairQueue({ atOnce: 2, perKey: 1 })
    const { running, work, end } = open()
    const results = [
      queue.run('a', work('a1')),
      queue.run('a', work('a2')),
      queue.run('b', work('b1')),
      queue.run('c', work('c1')),
    ].map((result) => result.catch((error: Error) => error.message))
    await settled()
    expect(running).toEqual(['a1', 'b1'])
    end('b1', new TypeError('broken'))
    expect(await results[2]).toBe('broken')
    await settled()
    expect(running).toEqual(['a1', 'c1'])
    end('a1')
    await results[0]
    await settled()
    expect(running).toEqual(['c1', 'a2'])
    for (const name of ['a2', 'c1']) end(name)
    expect(await Promise.all(results)).toEqual([undefined, undefined, 'broken', undefined])
  })

  it('counts a task that throws before it returns a promise as failed, and no other', async () => {
    const queue = new FairQueue({ atOnce: 1, perKey: 1 })
    const broken = (): Promise<string> => {
      throw new TypeError('broken')
    }
    const results = [
      queue.run('a', async () => 'A'),
      queue.run('b', broken),
      queue.run('c', async () => 'C'),
    ].map((result) => result.catch((error: Error) => error.message))
    expect(await Promise.all(results)).toEqual(['A', 'broken', 'C'])
    await queue.idle()
  })

  it('removes a waiting task when its signal is aborted', async () => {
    const queue = new FairQueue({ atOnce: 1, perKey: 1 })
    const { running, work, end } = open()
    const stop = new AbortController()
    const first = queue.run('a', work('a'))
    const second = queue.run('b', work('b'), stop.signal)
    stop.abort(new TypeError('over'))
    await expect(second).rejects.toThrow('over')
    await expect(queue.run('c', work('c'), stop.signal)).rejects.toThrow('over')
    await settled()
    end('a')
    await first
    expect(running).toEqual([])
  })
})
