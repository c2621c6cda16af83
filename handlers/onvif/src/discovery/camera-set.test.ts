import { ManualClock } from '@akrijs/sdk/testing'
import { beforeEach, describe, expect, it } from 'vitest'
import type { CameraFacts } from '../device/camera.js'
import { OnvifUnreachableError } from '../errors.js'
import type { CameraAnnouncement } from './camera-entry.js'
import { CameraSet, type CameraSetOptions } from './camera-set.js'

const FACTS: CameraFacts = { authentication: 'none', serialNumber: '1' }
const REFRESH_MS = 600_000

let clock: ManualClock
let set: CameraSet
/** URLs at which a camera answers. */
let answering: Map<string, CameraFacts>

beforeEach(() => {
  clock = new ManualClock(1_000_000)
  set = setOf()
  answering = new Map([[at('10.0.0.1'), FACTS]])
})

function setOf(options: Partial<CameraSetOptions> = {}): CameraSet {
  return new CameraSet(
    { identity: 'url', refreshMs: REFRESH_MS, accepts: () => true, clock, ...options },
    () => 1,
  )
}

const at = (address: string) => `http://${address}/onvif/device_service`

function announced(
  uuid: string,
  address: string,
  more: Partial<CameraAnnouncement> = {},
): CameraAnnouncement {
  return { uuid, urls: [at(address)], scopes: [], metadataVersion: 1, source: address, ...more }
}

/** Makes the due queries. @returns the URLs that were called */
function ask(): string[] {
  const asked: string[] = []
  for (let queries = set.due([]); queries.length > 0; queries = set.due([]))
    for (const { id, urls } of queries) {
      const url = urls.find((called) => {
        const facts = answering.get(called)
        return facts !== undefined && set.isSameCamera(id, called, facts)
      })
      const silentUrls = urls.slice(0, urls.indexOf(url ?? ''))
      if (url === undefined) set.failed(id)
      else set.answered(id, { url, facts: answering.get(url) ?? FACTS, silentUrls })
      asked.push(...urls)
    }
  return asked
}

/** A round with these answers to the Probe, and with all queries that the limits allow. */
async function round(...heard: CameraAnnouncement[]): Promise<string[]> {
  for (const announcement of heard) set.heard('ProbeMatch', announcement)
  const first = ask()
  set.endRound()
  const later = ask()
  await clock.advance(10_000)
  return [...first, ...later]
}

const presentUrls = () => set.cameras.map(({ url }) => url)

describe('announced cameras', () => {
  it('are offered after their first answer, and queried after the refresh time', async () => {
    const camera = announced('a', '10.0.0.1')
    expect(await round(camera)).toEqual([at('10.0.0.1')])
    expect(set.cameras).toEqual([{ uuid: 'a', url: at('10.0.0.1'), scopes: [], facts: FACTS }])
    const asked: string[] = []
    for (let n = 1; n < REFRESH_MS / 10_000; n++) asked.push(...(await round(camera)))
    expect(asked).toEqual([])
    expect(await round(camera)).toEqual([at('10.0.0.1')])
  })

  it('D2 are queried again in limited numbers, however many they are', async () => {
    const cameras = Array.from({ length: 500 }, (_, n) =>
      announced(`camera-${n}`, `10.0.${n >> 8}.${n & 255}`),
    )
    for (const { urls } of cameras) answering.set(urls[0] ?? '', FACTS)
    expect(await round(...cameras)).toHaveLength(500)
    let most = 0
    for (let n = 0; n < 100; n++) most = Math.max(most, (await round(...cameras)).length)
    expect(most).toBe(16)
  })

  it('are queried 16 at a time, 2 of an address, and 4 more that have said Hello', () => {
    const cameras = Array.from({ length: 30 }, (_, n) =>
      Array.from({ length: 4 }, (_, m) =>
        announced(`${n} ${m}`, `10.0.0.${n}`, { urls: [at(`10.0.0.${n}:${m}`)] }),
      ),
    ).flat()
    for (const camera of cameras) set.heard('ProbeMatch', camera)
    const running = (queries: readonly { source: string }[]) => queries.map(({ source }) => source)
    const first = running(set.due([]))
    expect(first).toEqual(
      cameras.slice(0, 32).flatMap(({ source }, n) => (n % 4 < 2 ? [source] : [])),
    )
    expect(set.due(first)).toEqual([])
    for (const n of [2, 3, 40, 44, 48, 52]) set.heard('Hello', cameras[n] ?? expect.fail())
    const hastened = running(set.due(first))
    expect(hastened).toEqual(['10.0.0.0', '10.0.0.10', '10.0.0.11', '10.0.0.12'])
    const all = [...first, ...hastened]
    expect(running(set.due(all.slice(2)))).toEqual(['10.0.0.0', '10.0.0.13'])
    // A place for all is free when less than 16 queries run.
    expect(set.due(all.slice(4))).toEqual([])
    expect(running(set.due(all.slice(5)))).toEqual(['10.0.0.1'])
  })

  it('are queried again although queries of another address wait for places', async () => {
    const slow = Array.from({ length: 32 }, (_, n) =>
      announced(`slow ${n}`, '10.0.0.1', { urls: [at(`10.0.0.1:${n}`)] }),
    )
    const other = announced('other', '10.0.0.2')
    for (const { urls } of [...slow, other]) answering.set(urls[0] ?? '', FACTS)
    await round(...slow)
    await round(...slow, other)
    await clock.advance(REFRESH_MS)
    const running: string[] = []
    // The queries of the slow cameras do not end.
    for (let rounds = 0; rounds < 3; rounds++) {
      for (const camera of [...slow, other]) set.heard('ProbeMatch', camera)
      set.endRound()
      running.push(...set.due(running).map(({ source }) => source))
      await clock.advance(10_000)
    }
    expect(running).toEqual(['10.0.0.1', '10.0.0.1', '10.0.0.2'])
  })

  it('are queried less and less often while they do not answer', async () => {
    answering.clear()
    const asked: number[] = []
    for (let n = 0; n < 300; n++)
      if ((await round(announced('a', '10.0.0.1'))).length > 0) asked.push(n)
    // The waits grow from five seconds to ten minutes; rounds are ten seconds apart.
    expect(asked.slice(0, 6)).toEqual([0, 1, 2, 4, 8, 16])
    expect((asked.at(-1) ?? 0) - (asked.at(-2) ?? 0)).toBe(60)
  })

  it('stay while they announce no URL, and only by their own address and metadata', async () => {
    const camera = announced('a', '10.0.0.1')
    await round(camera)
    const without = (more: Partial<CameraAnnouncement> = {}) =>
      set.heardWithoutUrls({ ...camera, urls: [], ...more })
    for (let n = 0; n < 5; n++) {
      expect(without()).toBe(true)
      await round()
    }
    expect(presentUrls()).toEqual([at('10.0.0.1')])
    expect(without({ metadataVersion: 2 })).toBe(false)
    expect(without({ uuid: 'b' })).toBeUndefined()
    for (let n = 0; n < 4; n++) {
      expect(without({ source: '10.0.0.66' })).toBeUndefined()
      await round()
    }
    expect(presentUrls()).toEqual([])
  })

  it('stay after two failed queries, and go after three', async () => {
    const camera = announced('a', '10.0.0.1')
    await round(camera)
    answering.clear()
    await clock.advance(REFRESH_MS)
    const offered: number[] = []
    for (let n = 0; n < 5; n++) {
      await round(camera)
      offered.push(set.cameras.length)
    }
    expect(offered).toEqual([1, 1, 0, 0, 0])
  })

  it('keep their facts if they stop answering during a query', async () => {
    const camera = announced('a', '10.0.0.1')
    await round(camera)
    answering.set(at('10.0.0.1'), {
      authentication: 'none',
      incomplete: new OnvifUnreachableError('too slow'),
    })
    await clock.advance(REFRESH_MS)
    expect(await round(camera)).toHaveLength(1)
    expect(set.cameras[0]?.facts).toBe(FACTS)
  })

  it('are gone after three silent rounds, and not before', async () => {
    await round(announced('a', '10.0.0.1'))
    const there: number[] = []
    for (let n = 0; n < 3; n++) {
      await round()
      there.push(set.cameras.length)
    }
    expect(there).toEqual([1, 1, 0])
  })

  it('are gone at their Bye, and a late answer does not bring them back', async () => {
    await round(announced('a', '10.0.0.1'))
    expect(set.bye('a', '10.0.0.1')).toBe(true)
    expect(presentUrls()).toEqual([])
    set.heard('ProbeMatch', announced('a', '10.0.0.1'))
    expect(ask()).toEqual([])
    set.heard('Hello', announced('a', '10.0.0.1'))
    ask()
    expect(presentUrls()).toEqual([at('10.0.0.1')])
  })

  it('stay at a Bye from another address, which causes no query', async () => {
    for (let n = 0; n < 4; n++) await round(announced('a', '10.0.0.1'))
    answering.clear()
    expect(set.bye('a', '10.0.0.66')).toBe(false)
    expect(ask()).toEqual([])
    expect(presentUrls()).toEqual([at('10.0.0.1')])
  })

  it('are changed by announcements from their own address only', async () => {
    set = setOf({ accepts: ({ scopes }) => scopes.includes('mine') })
    const camera = announced('a', '10.0.0.1', { scopes: ['mine'] })
    await round(camera)
    await round(camera, { ...camera, scopes: ['not'], source: '10.0.0.66' })
    expect(presentUrls()).toEqual([at('10.0.0.1')])
    await round({ ...camera, scopes: ['not'] })
    expect(presentUrls()).toEqual([])
  })

  it('are queried again when their metadata change, twice a minute at most', async () => {
    const asked: number[] = []
    for (let n = 0; n < 12; n++) {
      const requests = await round(announced('a', '10.0.0.1', { metadataVersion: n }))
      if (requests.length > 0) asked.push(n)
    }
    expect(asked).toEqual([0, 3, 6, 9])
  })

  it('are several cameras if they have one UUID and different URLs', async () => {
    for (const address of ['10.0.0.1', '10.0.0.2']) answering.set(at(address), FACTS)
    await round(announced('a', '10.0.0.1'), announced('a', '10.0.0.2'))
    expect(presentUrls()).toEqual([at('10.0.0.1'), at('10.0.0.2')])
  })

  it('are one camera if their announcements have a common URL', async () => {
    const camera = announced('a', '10.0.0.1', { urls: [at('10.0.0.9'), at('10.0.0.1')] })
    expect(await round(camera)).toEqual([at('10.0.0.9'), at('10.0.0.1')])
    await round(announced('a', '10.0.0.1'), camera)
    expect(presentUrls()).toEqual([at('10.0.0.1')])
  })

  describe('with another UUID after a restart', () => {
    const [before, after] = [announced('old', '10.0.0.1'), announced('new', '10.0.0.1')]
    const presentUuids = () => set.cameras.map(({ uuid }) => uuid)

    it.each(['url', 'uuid'] as const)(
      'D2 replace the camera before at once: %s',
      async (identity) => {
        set = setOf({ identity })
        await round(before)
        set.heard('Hello', after)
        expect(presentUuids()).toEqual(['old'])
        ask()
        expect(presentUuids()).toEqual(['new'])
      },
    )

    it('D2 replace the camera before in the next round if their Hello was lost', async () => {
      await round(before)
      await round(after)
      expect(presentUuids()).toEqual(['new'])
    })

    it('D2 do not replace a camera that still answers, or that misses a round', async () => {
      const uuids: string[][] = []
      const rounds = [[before], [before, after], [after], [before], [before, after], [after]]
      for (const heard of rounds) {
        await round(...heard)
        uuids.push(presentUuids())
      }
      expect(uuids).toEqual([['old'], ...Array(5).fill(['old', 'new'])])
    })

    it.each(['ProbeMatch', 'Hello'] as const)(
      'D2 do not replace a camera of the same round, as bridges announce several: %s',
      async (kind) => {
        const uuids: string[][] = []
        for (const heard of [[before, after], [after, before], [before], [after]]) {
          for (const announcement of heard) {
            set.heard(kind, announcement)
            await clock.advance(1)
          }
          await round()
          uuids.push(presentUuids())
        }
        expect(uuids).toEqual(Array(4).fill(['old', 'new']))
      },
    )

    it('do not replace a camera by an announcement from another address', async () => {
      await round(before)
      set.heard('Hello', { ...after, source: '10.0.0.66' })
      ask()
      await round({ ...after, source: '10.0.0.66' })
      expect(presentUuids()).toEqual(['old', 'new'])
    })

    it('replace a camera that answers in the next round for that long only', async () => {
      await round(before)
      set.heard('Hello', after)
      ask()
      for (let n = 0; n < 3; n++) {
        await round(before, after)
        expect(presentUuids()).toEqual(['new', 'old'])
      }
    })
  })

  it('are counted at both their addresses while they are present', async () => {
    const url = 'http://[FE80:0::1]/onvif/device_service'
    const camera = announced('a', '10.0.0.1', { urls: [url] })
    const neighbour = announced('b', '10.0.0.1')
    const counts = () =>
      ['10.0.0.1', 'fe80::1%eth0', '10.0.0.2'].map((address) => set.camerasAt(address))
    for (const home of [url, at('10.0.0.1'), at('10.0.0.2')]) answering.set(home, FACTS)
    set.heard('ProbeMatch', camera)
    expect(counts()).toEqual([0, 0, 0])
    await round(camera, neighbour)
    expect(counts()).toEqual([2, 1, 0])
    set.bye('b', '10.0.0.1')
    expect(counts()).toEqual([1, 1, 0])
    await round({ ...camera, source: 'fe80::1%eth0' })
    expect(counts()).toEqual([0, 1, 0])
    answering.clear()
    for (let n = 0; n < 70; n++) await round({ ...camera, source: 'fe80::1%eth0' })
    expect(counts()).toEqual([0, 0, 0])
  })

  describe('with several URLs', () => {
    const [first, second] = [at('10.0.0.1'), at('10.0.0.2')]
    const camera = announced('a', '10.0.0.2', { urls: [first, second] })

    beforeEach(() => answering.clear())

    /** Runs rounds until the next query. @returns their number, and the URLs of the query */
    async function untilAsked(
      announcement: () => CameraAnnouncement = () => camera,
    ): Promise<[rounds: number, asked: string[]]> {
      for (let rounds = 1; rounds < 100; rounds++) {
        const asked = await round(announcement())
        if (asked.length > 0) return [rounds, asked]
      }
      return expect.fail('there was no query')
    }

    it('are queried on the interface of the announcement of each URL', async () => {
      set = setOf({ identity: 'uuid' })
      const link = at('[fe80::2]')
      const camera = announced('a', '10.0.0.1')
      await round(camera)
      const moved = { urls: [link], source: 'fe80::2%eth1', zone: 'eth1' }
      set.heard('Hello', announced('a', '10.0.0.1', moved))
      await clock.advance(5000)
      expect(set.due([])).toMatchObject([
        {
          urls: [at('10.0.0.1'), link],
          zones: new Map([
            [at('10.0.0.1'), undefined],
            [link, 'eth1'],
          ]),
        },
      ])
    })

    it('move to the first URL as soon as it answers, because ids are made of URLs', async () => {
      answering.set(second, FACTS)
      expect(await round(camera)).toEqual([first, second])
      expect(presentUrls()).toEqual([second])
      // The first query comes soon, the next after the refresh time.
      expect(await untilAsked()).toEqual([3, [first, second]])
      expect(await untilAsked()).toEqual([60, [first, second]])
      expect(presentUrls()).toEqual([second])
      answering.set(first, FACTS)
      expect(await untilAsked()).toEqual([60, [first, second]])
      expect(presentUrls()).toEqual([first])
      expect(await untilAsked()).toEqual([60, [first]])
    })

    it('stay at their URL while another camera answers at the first URL', async () => {
      answering.set(second, FACTS)
      await round(camera)
      answering.set(first, { ...FACTS, serialNumber: '2' })
      await untilAsked()
      expect(presentUrls()).toEqual([second])
    })

    it('stay at their URL when the order of their URLs changes', async () => {
      for (const url of [first, second]) answering.set(url, FACTS)
      await round(camera)
      const turned = { ...camera, source: '10.0.0.1', urls: [second, first] }
      for (const _ of [1, 2]) expect(await untilAsked(() => turned)).toEqual([60, [first]])
      expect(presentUrls()).toEqual([first])
    })

    it('do not move to a URL that they do not announce themselves', async () => {
      answering.set(second, FACTS)
      await round({ ...camera, urls: [at('10.0.0.66'), second], source: '10.0.0.66' })
      answering.set(at('10.0.0.66'), FACTS)
      expect(await untilAsked(() => announced('a', '10.0.0.2'))).toEqual([3, [second]])
      expect(presentUrls()).toEqual([second])
    })

    it('move to the next URL when the first no longer answers', async () => {
      for (const url of [first, second]) answering.set(url, FACTS)
      await round(camera)
      answering.delete(first)
      for (let n = 0; n < 70; n++) await round(camera)
      expect(presentUrls()).toEqual([second])
    })
  })

  describe('with the UUID as their identity', () => {
    beforeEach(() => {
      set = setOf({ identity: 'uuid' })
    })

    it('D2 move when they are silent at their URL and answer elsewhere', async () => {
      await round(announced('a', '10.0.0.1'))
      answering.clear()
      answering.set(at('10.0.0.2'), FACTS)
      await round(announced('a', '10.0.0.2', { scopes: ['new'] }))
      expect(set.cameras).toEqual([
        { uuid: 'a', url: at('10.0.0.2'), scopes: ['new'], facts: FACTS },
      ])
    })

    it('move also when another camera has their old address', async () => {
      await round(announced('a', '10.0.0.1'))
      answering.set(at('10.0.0.1'), { ...FACTS, serialNumber: '2' })
      answering.set(at('10.0.0.2'), FACTS)
      await round(announced('a', '10.0.0.2'), announced('b', '10.0.0.1'))
      expect(presentUrls().sort()).toEqual([at('10.0.0.1'), at('10.0.0.2')])
      expect(set.cameras.find(({ uuid }) => uuid === 'a')?.url).toBe(at('10.0.0.2'))
    })

    it('stay while they answer at their URL, whatever others announce', async () => {
      for (const address of ['10.0.0.1', '10.0.0.66']) answering.set(at(address), FACTS)
      await round(announced('a', '10.0.0.1'))
      const forged = announced('a', '10.0.0.66')
      expect(await round(announced('a', '10.0.0.1'), forged)).toEqual([])
      // The camera's own answer is lost: a query checks whether it is still present.
      expect(await round(forged)).toEqual([at('10.0.0.1'), at('10.0.0.66')])
      expect(presentUrls()).toEqual([at('10.0.0.1')])
    })

    it('are found although another host used their UUID first', async () => {
      await round(announced('a', '10.0.0.66'))
      await round(announced('a', '10.0.0.66'), announced('a', '10.0.0.1'))
      expect(presentUrls()).toEqual([at('10.0.0.1')])
    })
  })

  describe('with forged announcements', () => {
    it('are limited for each address', async () => {
      const forged = Array.from({ length: 500 }, (_, n) =>
        announced(`forged-${n}`, '10.0.0.66', { urls: [at(`10.1.0.${n}`)] }),
      )
      const asked = await round(...forged, announced('a', '10.0.0.1'))
      expect(asked).toHaveLength(33)
      expect(presentUrls()).toEqual([at('10.0.0.1')])
    })

    it('make room for cameras that answer', async () => {
      const forged = Array.from({ length: 1000 }, (_, n) =>
        announced(`forged-${n}`, `10.${n >> 8}.1.${n & 255}`),
      )
      await round(...forged)
      answering.set(at('192.168.0.1'), FACTS)
      await round(announced('a', '192.168.0.1'))
      expect(presentUrls()).toEqual([at('192.168.0.1')])
    })
  })
})
