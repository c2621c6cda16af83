import { expect, it } from 'vitest'
import { SessionGate } from './session-gate.js'

/** Lets promises that can go on go on. */
const settled = () => new Promise((resolve) => setImmediate(resolve))
const never = new AbortController().signal

/** Work that is under way until it is told to end. */
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

it('lets so many in at a time, one for each server, and the next when one has ended or failed', async () => {
  const gate = new SessionGate(2)
  const { running, work, end } = open()
  const results = [
    gate.run('a', never, work('a1')),
    gate.run('a', never, work('a2')),
    gate.run('b', never, work('b1')),
    gate.run('c', never, work('c1')),
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

it('lets nobody in whose signal was aborted while waiting', async () => {
  const gate = new SessionGate(1)
  const { running, work, end } = open()
  const stop = new AbortController()
  const first = gate.run('a', never, work('a'))
  const second = gate.run('b', stop.signal, work('b'))
  stop.abort(new TypeError('over'))
  await expect(second).rejects.toThrow('over')
  await expect(gate.run('c', stop.signal, work('c'))).rejects.toThrow('over')
  await settled()
  end('a')
  await first
  expect(running).toEqual([])
})
