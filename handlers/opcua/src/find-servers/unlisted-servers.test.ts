import { describe, expect, it } from 'vitest'
import { application } from '../../test-peers/simulated-server.js'
import { clock, discoveryServer, ids, list, Rounds, standard, start } from '../testing/rounds.js'

// A restarted discovery server forgets its servers, which register again within ten minutes.

const MINUTE_MS = 60_000

async function passMinutes(rounds: Rounds, minutes: number): Promise<readonly string[]> {
  await clock.untilSleeping()
  await clock.advance(minutes * MINUTE_MS)
  return ids(await rounds.first())
}

describe('servers that a discovery server does not list any more', () => {
  it('stay as long as they answer themselves, until they are listed again', async () => {
    const [first, second] = [await start({ name: 'one' }), await start({ name: 'two' })]
    const lds = await discoveryServer(first, second)
    const rounds = new Rounds(standard([lds.url]))
    const before = await rounds.first()
    list(lds, [])
    expect(await rounds.next()).toEqual(before)
    expect(await passMinutes(rounds, 10)).toEqual([first.url, second.url])
    list(lds, [second])
    expect(ids(await rounds.next()).sort()).toEqual([first.url, second.url].sort())
    // The period restarts when a server is missing again.
    await passMinutes(rounds, 15)
    list(lds, [])
    expect(ids(await rounds.next())).toEqual([second.url])
    const told = rounds.logged.filter(({ message }) =>
      message.startsWith('servers missing in the list kept'),
    )
    expect(told.map(({ level, fields }) => [level, fields])).toEqual([
      ['info', { discoveryUrl: lds.url, servers: 2 }],
      ['info', { discoveryUrl: lds.url, servers: 1 }],
    ])
  })

  it('are removed after 20 minutes, though they answer', async () => {
    const first = await start({ name: 'one' })
    const lds = await discoveryServer(first)
    const rounds = new Rounds(standard([lds.url]))
    await rounds.first()
    list(lds, [])
    expect(ids(await rounds.next())).toEqual([first.url])
    expect(await passMinutes(rounds, 20)).toEqual([first.url])
    expect(await rounds.next()).toEqual([])
  })

  it('are removed immediately if they do not answer', async () => {
    const [first, second, third] = [
      await start({ name: 'one' }),
      await start({ name: 'two' }),
      await start({ name: 'three' }),
    ]
    const lds = await discoveryServer(first, second, third)
    const rounds = new Rounds(standard([lds.url]))
    await rounds.first()
    await first.close()
    list(lds, [second, third])
    expect(ids(await rounds.next())).toEqual([second.url, third.url])
    // This server unregisters first, and ends later.
    list(lds, [third])
    expect(ids(await rounds.next()).sort()).toEqual([second.url, third.url].sort())
    await second.close()
    expect(ids(await rounds.next())).toEqual([third.url])
  })

  it('are removed if they stop answering while their discovery server is silent', async () => {
    const first = await start({ name: 'one' })
    const lds = await discoveryServer(first)
    const rounds = new Rounds(standard([lds.url]))
    await rounds.first()
    list(lds, [])
    lds.silent = true
    expect(await passMinutes(rounds, 2)).toEqual([first.url])
    lds.silent = false
    expect(ids(await rounds.next())).toEqual([first.url])
    await first.close()
    expect(await rounds.next()).toEqual([])
  })

  it('are called a few in a round, and each once a minute', async () => {
    const all = await Promise.all(
      Array.from({ length: 100 }, (_, index) => start({ name: `server ${index}` })),
    )
    const lds = await discoveryServer(...all)
    const rounds = new Rounds(standard([lds.url]))
    await rounds.first()
    list(lds, [])
    const asked = () => all.map((server) => server.asked.length)
    for (let round = 1; round <= 3; round++) {
      expect(await rounds.next()).toHaveLength(100)
      expect(asked().reduce((sum, count) => sum + count)).toBe(100 + 10 * round)
    }
    for (let round = 4; round <= 7; round++) await rounds.next()
    expect(Math.min(...asked())).toBe(2)
  })

  it('are not offered twice if the discovery server spells them in another way', async () => {
    const first = await start({ name: 'one' })
    const lds = await discoveryServer(first)
    const rounds = new Rounds(standard([lds.url]))
    expect(ids(await rounds.first())).toEqual([first.url])
    const [self] = first.applications
    first.applications = [{ ...application(self), discoveryUrls: [`${first.url}renamed`] }]
    list(lds, [first])
    expect(ids(await rounds.next())).toEqual([`${first.url}renamed`])
  })

  it('are removed immediately at a server that reports only itself', async () => {
    const plc = await start({ name: 'plc' })
    const rounds = new Rounds(standard([plc.url]))
    await rounds.first()
    plc.applications = [
      application({
        applicationName: 'plc',
        discoveryUrls: [`${plc.url}renamed`],
        applicationUri: 'urn:other',
      }),
    ]
    expect(ids(await rounds.next())).toEqual([`${plc.url}renamed`])
  })
})
