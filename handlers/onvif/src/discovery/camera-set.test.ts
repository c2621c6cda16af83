import { ManualClock } from '@akrijs/sdk/testing'
import { beforeEach, describe, expect, it } from 'vitest'
import type { CameraFacts } from '../device/camera.js'
import { OnvifUnreachableError } from '../errors.js'
import type { CameraAnnouncement } from './camera-entry.js'
import { CameraSet, type CameraSetOptions } from './camera-set.js'

const FACTS: CameraFacts = { authentication: 'none', serialNumber: '1' }
const REFRESH_MS = 600_000

let clock: ManualClock
/** URLs at which a camera answers. */
let answering: Map<string, CameraFacts>

beforeEach(() => {
  clock = new ManualClock(1_000_000)
  answering = new Map()
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

/** Asks who is due. @returns the URLs that were tried */
function ask(set: CameraSet, most = 0): string[] {
  return set.due(most).flatMap(({ id, urls }) => {
    const url = urls.find((one) => {
      const facts = answering.get(one)
      return facts !== undefined && set.isSameCamera(id, one, facts)
    })
    const silentUrls = urls.slice(0, urls.indexOf(url ?? ''))
    if (url === undefined) set.failed(id)
    else set.answered(id, { url, facts: answering.get(url) ?? FACTS, silentUrls })
    return urls
  })
}

/** A round in which these answer the Probe, and as many as may be are asked. */
async function round(set: CameraSet, ...heard: CameraAnnouncement[]): Promise<string[]> {
  for (const one of heard) set.heard('ProbeMatch', one)
  const first = ask(set)
  set.endRound()
  const later = ask(set, 16)
  await clock.advance(10_000)
  return [...first, ...later]
}

const urlsOf = (set: CameraSet) => set.cameras.map(({ url }) => url)

describe('the cameras that were heard of', () => {
  it('are offered once they have answered, and asked again only when what is known of them is old', async () => {
    const set = setOf()
    answering.set(at('10.0.0.1'), FACTS)
    const camera = announced('a', '10.0.0.1')
    expect(await round(set, camera)).toEqual([at('10.0.0.1')])
    expect(set.cameras).toEqual([{ uuid: 'a', url: at('10.0.0.1'), scopes: [], facts: FACTS }])
    const asked: string[] = []
    for (let n = 1; n < REFRESH_MS / 10_000; n++) asked.push(...(await round(set, camera)))
    expect(asked).toEqual([])
    expect(await round(set, camera)).toEqual([at('10.0.0.1')])
  })

  it('D2 are asked anew in bounded numbers, however many they are', async () => {
    const set = setOf()
    const cameras = Array.from({ length: 500 }, (_, n) =>
      announced(`camera-${n}`, `10.0.${n >> 8}.${n & 255}`),
    )
    for (const { urls } of cameras) answering.set(urls[0] ?? '', FACTS)
    expect(await round(set, ...cameras)).toHaveLength(500)
    let most = 0
    for (let n = 0; n < 100; n++) most = Math.max(most, (await round(set, ...cameras)).length)
    expect(most).toBe(16)
  })

  it('are asked less and less often while they do not answer', async () => {
    const set = setOf()
    const asked: number[] = []
    for (let n = 0; n < 300; n++)
      if ((await round(set, announced('a', '10.0.0.1'))).length > 0) asked.push(n)
    // Five seconds first, ten minutes at last; and rounds are ten seconds apart.
    expect(asked.slice(0, 6)).toEqual([0, 1, 2, 4, 8, 16])
    expect((asked.at(-1) ?? 0) - (asked.at(-2) ?? 0)).toBe(60)
  })

  it('keep their place when one refresh fails, and lose it when three do', async () => {
    const set = setOf()
    const camera = announced('a', '10.0.0.1')
    answering.set(at('10.0.0.1'), FACTS)
    await round(set, camera)
    answering.clear()
    await clock.advance(REFRESH_MS)
    const offered: number[] = []
    for (let n = 0; n < 5; n++) {
      await round(set, camera)
      offered.push(set.cameras.length)
    }
    expect(offered).toEqual([1, 1, 0, 0, 0])
  })

  it('keep what they told before when they stop answering in the middle of a refresh', async () => {
    const set = setOf()
    const camera = announced('a', '10.0.0.1')
    answering.set(at('10.0.0.1'), FACTS)
    await round(set, camera)
    answering.set(at('10.0.0.1'), {
      authentication: 'none',
      incomplete: new OnvifUnreachableError('too slow'),
    })
    await clock.advance(REFRESH_MS)
    expect(await round(set, camera)).toHaveLength(1)
    expect(set.cameras[0]?.facts).toBe(FACTS)
  })

  it('are gone after three rounds of silence, not sooner', async () => {
    const set = setOf()
    answering.set(at('10.0.0.1'), FACTS)
    await round(set, announced('a', '10.0.0.1'))
    const there: number[] = []
    for (let n = 0; n < 3; n++) {
      await round(set)
      there.push(set.cameras.length)
    }
    expect(there).toEqual([1, 1, 0])
  })

  it('are gone at a Bye from their own address, and not back by an answer that was under way', async () => {
    const set = setOf()
    answering.set(at('10.0.0.1'), FACTS)
    await round(set, announced('a', '10.0.0.1'))
    expect(set.bye('a', '10.0.0.1')).toBe(true)
    expect(urlsOf(set)).toEqual([])
    set.heard('ProbeMatch', announced('a', '10.0.0.1'))
    expect(ask(set)).toEqual([])
    set.heard('Hello', announced('a', '10.0.0.1'))
    ask(set)
    expect(urlsOf(set)).toEqual([at('10.0.0.1')])
  })

  it('are asked when somebody else says goodbye for them, but not over and over', async () => {
    const set = setOf()
    answering.set(at('10.0.0.1'), FACTS)
    for (let n = 0; n < 4; n++) await round(set, announced('a', '10.0.0.1'))
    expect(set.bye('a', '10.0.0.66')).toBe(false)
    expect(ask(set)).toEqual([at('10.0.0.1')])
    for (let n = 0; n < 100; n++) set.bye('a', '10.0.0.66')
    expect(ask(set)).toEqual([])
    expect(urlsOf(set)).toEqual([at('10.0.0.1')])
    answering.clear()
    for (let n = 0; n < 4; n++) await round(set, announced('a', '10.0.0.1'))
    set.bye('a', '10.0.0.66')
    ask(set)
    expect(urlsOf(set)).toEqual([])
  })

  it('are changed by what they say themselves alone', async () => {
    const set = setOf({ accepts: ({ scopes }) => scopes.includes('mine') })
    answering.set(at('10.0.0.1'), FACTS)
    const camera = announced('a', '10.0.0.1', { scopes: ['mine'] })
    await round(set, camera)
    await round(set, camera, { ...camera, scopes: ['not'], source: '10.0.0.66' })
    expect(urlsOf(set)).toEqual([at('10.0.0.1')])
    await round(set, { ...camera, scopes: ['not'] })
    expect(urlsOf(set)).toEqual([])
  })

  it('are asked anew when their metadata are new, twice a minute at most', async () => {
    const set = setOf()
    answering.set(at('10.0.0.1'), FACTS)
    const asked: number[] = []
    for (let n = 0; n < 12; n++) {
      const requests = await round(set, announced('a', '10.0.0.1', { metadataVersion: n }))
      if (requests.length > 0) asked.push(n)
    }
    expect(asked).toEqual([0, 3, 6, 9])
  })

  it('are several where several have one UUID, and ids are made of URLs', async () => {
    const set = setOf()
    for (const address of ['10.0.0.1', '10.0.0.2']) answering.set(at(address), FACTS)
    await round(set, announced('a', '10.0.0.1'), announced('a', '10.0.0.2'))
    expect(urlsOf(set)).toEqual([at('10.0.0.1'), at('10.0.0.2')])
  })

  it('are one where several announcements have a URL in common', async () => {
    const set = setOf()
    answering.set(at('10.0.0.1'), FACTS)
    const camera = announced('a', '10.0.0.1', { urls: [at('10.0.0.9'), at('10.0.0.1')] })
    expect(await round(set, camera)).toEqual([at('10.0.0.9'), at('10.0.0.1')])
    await round(set, announced('a', '10.0.0.1'), camera)
    expect(urlsOf(set)).toEqual([at('10.0.0.1')])
  })

  it('are counted where they are and where they are heard from, as long as they are known', async () => {
    const set = setOf()
    const url = 'http://[FE80:0::1]/onvif/device_service'
    const camera = announced('a', '10.0.0.1', { urls: [url] })
    const neighbour = announced('b', '10.0.0.1')
    const counts = () =>
      ['10.0.0.1', 'fe80::1%eth0', '10.0.0.2'].map((address) => set.camerasAt(address))
    for (const one of [url, at('10.0.0.1'), at('10.0.0.2')]) answering.set(one, FACTS)
    set.heard('ProbeMatch', camera)
    expect(counts()).toEqual([0, 0, 0])
    await round(set, camera, neighbour)
    expect(counts()).toEqual([2, 1, 0])
    set.bye('b', '10.0.0.1')
    expect(counts()).toEqual([1, 1, 0])
    await round(set, { ...camera, source: 'fe80::1%eth0' })
    expect(counts()).toEqual([0, 1, 0])
    answering.clear()
    for (let n = 0; n < 70; n++) await round(set, { ...camera, source: 'fe80::1%eth0' })
    expect(counts()).toEqual([0, 0, 0])
  })

  describe('and have several URLs', () => {
    const [first, second] = [at('10.0.0.1'), at('10.0.0.2')]
    const camera = announced('a', '10.0.0.2', { urls: [first, second] })

    /** Rounds until the camera is asked again. @returns how many, and what is asked then */
    async function untilAsked(
      set: CameraSet,
      said: () => CameraAnnouncement = () => camera,
    ): Promise<[rounds: number, asked: string[]]> {
      for (let rounds = 1; rounds < 100; rounds++) {
        const asked = await round(set, said())
        if (asked.length > 0) return [rounds, asked]
      }
      return expect.fail('it was never asked')
    }

    it('move to the first one as soon as that answers, since ids are made of it', async () => {
      const set = setOf()
      answering.set(second, FACTS)
      expect(await round(set, camera)).toEqual([first, second])
      expect(urlsOf(set)).toEqual([second])
      // Soon at first, then as all others.
      expect(await untilAsked(set)).toEqual([3, [first, second]])
      expect(await untilAsked(set)).toEqual([60, [first, second]])
      expect(urlsOf(set)).toEqual([second])
      answering.set(first, FACTS)
      expect(await untilAsked(set)).toEqual([60, [first, second]])
      expect(urlsOf(set)).toEqual([first])
      expect(await untilAsked(set)).toEqual([60, [first]])
    })

    it('stay where they are while the first one is that of another camera', async () => {
      const set = setOf()
      answering.set(second, FACTS)
      await round(set, camera)
      answering.set(first, { ...FACTS, serialNumber: '2' })
      await untilAsked(set)
      expect(urlsOf(set)).toEqual([second])
    })

    it('stay where they are when the order of their URLs changes', async () => {
      const set = setOf()
      for (const url of [first, second]) answering.set(url, FACTS)
      await round(set, camera)
      const turned = { ...camera, source: '10.0.0.1', urls: [second, first] }
      for (const _ of [1, 2]) expect(await untilAsked(set, () => turned)).toEqual([60, [first]])
      expect(urlsOf(set)).toEqual([first])
    })

    it('do not move to one that they do not announce themselves', async () => {
      const set = setOf()
      answering.set(second, FACTS)
      await round(set, { ...camera, urls: [at('10.0.0.66'), second], source: '10.0.0.66' })
      answering.set(at('10.0.0.66'), FACTS)
      expect(await untilAsked(set, () => announced('a', '10.0.0.2'))).toEqual([3, [second]])
      expect(urlsOf(set)).toEqual([second])
    })

    it('go to the next one when the first one answers no longer', async () => {
      const set = setOf()
      for (const url of [first, second]) answering.set(url, FACTS)
      await round(set, camera)
      answering.delete(first)
      for (let n = 0; n < 70; n++) await round(set, camera)
      expect(urlsOf(set)).toEqual([second])
    })
  })

  describe('and are told apart by UUIDs alone', () => {
    const byUuid = () => setOf({ identity: 'uuid' })

    it('D2 move when they are silent where they were and answer elsewhere', async () => {
      const set = byUuid()
      answering.set(at('10.0.0.1'), FACTS)
      await round(set, announced('a', '10.0.0.1'))
      answering.clear()
      answering.set(at('10.0.0.2'), FACTS)
      await round(set, announced('a', '10.0.0.2', { scopes: ['new'] }))
      expect(set.cameras).toEqual([
        { uuid: 'a', url: at('10.0.0.2'), scopes: ['new'], facts: FACTS },
      ])
    })

    it('move too when another camera has got their address', async () => {
      const set = byUuid()
      answering.set(at('10.0.0.1'), FACTS)
      await round(set, announced('a', '10.0.0.1'))
      answering.set(at('10.0.0.1'), { ...FACTS, serialNumber: '2' })
      answering.set(at('10.0.0.2'), FACTS)
      await round(set, announced('a', '10.0.0.2'), announced('b', '10.0.0.1'))
      expect(urlsOf(set).sort()).toEqual([at('10.0.0.1'), at('10.0.0.2')])
      expect(set.cameras.find(({ uuid }) => uuid === 'a')?.url).toBe(at('10.0.0.2'))
    })

    it('stay while they answer where they are, whatever others say', async () => {
      const set = byUuid()
      for (const address of ['10.0.0.1', '10.0.0.66']) answering.set(at(address), FACTS)
      await round(set, announced('a', '10.0.0.1'))
      const forged = announced('a', '10.0.0.66')
      expect(await round(set, announced('a', '10.0.0.1'), forged)).toEqual([])
      // Its own answer is lost: it is asked whether it is still there.
      expect(await round(set, forged)).toEqual([at('10.0.0.1'), at('10.0.0.66')])
      expect(urlsOf(set)).toEqual([at('10.0.0.1')])
    })

    it('are found although somebody else was the first to use their UUID', async () => {
      const set = byUuid()
      answering.set(at('10.0.0.1'), FACTS)
      await round(set, announced('a', '10.0.0.66'))
      await round(set, announced('a', '10.0.0.66'), announced('a', '10.0.0.1'))
      expect(urlsOf(set)).toEqual([at('10.0.0.1')])
    })
  })

  describe('when somebody forges them', () => {
    it('are so many from one address and no more', async () => {
      const set = setOf()
      const forged = Array.from({ length: 500 }, (_, n) =>
        announced(`forged-${n}`, '10.0.0.66', { urls: [at(`10.1.0.${n}`)] }),
      )
      answering.set(at('10.0.0.1'), FACTS)
      const asked = await round(set, ...forged, announced('a', '10.0.0.1'))
      expect(asked).toHaveLength(33)
      expect(urlsOf(set)).toEqual([at('10.0.0.1')])
    })

    it('make room for those that answer', async () => {
      const set = setOf()
      const forged = Array.from({ length: 1000 }, (_, n) =>
        announced(`forged-${n}`, `10.${n >> 8}.0.${n & 255}`),
      )
      await round(set, ...forged)
      answering.set(at('192.168.0.1'), FACTS)
      await round(set, announced('a', '192.168.0.1'))
      expect(urlsOf(set)).toEqual([at('192.168.0.1')])
    })
  })
})
