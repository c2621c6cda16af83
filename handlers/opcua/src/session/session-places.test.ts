import { setImmediate as turn } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { SessionPlaces } from './session-places.js'

const { signal } = new AbortController()

it('sessions have four places in all, and one for each server, also after failures', async () => {
  const places = new SessionPlaces()
  const open: { readonly url: string; readonly end: () => void }[] = []
  const begin = (url: string) =>
    places
      .run(
        url,
        () => new Promise((_, fail) => open.push({ url, end: () => fail('ended') })),
        signal,
      )
      .catch(() => undefined)
  const sessions = ['a', 'a', 'b', 'c', 'd', 'e'].map(begin)
  const urls = () => open.map(({ url }) => url)
  await turn()
  expect(urls()).toEqual(['a', 'b', 'c', 'd'])
  open.splice(1, 1)[0]?.end()
  await turn()
  expect(urls()).toEqual(['a', 'c', 'd', 'e'])
  open.splice(0, 1)[0]?.end()
  await turn()
  expect(urls()).toEqual(['c', 'd', 'e', 'a'])
  for (const { end } of open) end()
  await Promise.all(sessions)
})

it('a session ends with its signal before it has a place, and takes none', async () => {
  const places = new SessionPlaces()
  const stop = new AbortController()
  let end = () => {}
  const first = places.run('a', () => new Promise<void>((done) => (end = done)), signal)
  const second = places.run('a', () => expect.fail('it ran'), stop.signal)
  stop.abort()
  await expect(second).rejects.toThrow('aborted')
  end()
  await first
  const late = places.run('a', () => expect.fail('it ran'), stop.signal)
  await expect(late).rejects.toThrow('aborted')
  expect(await places.run('a', async () => 'next', signal)).toBe('next')
})
