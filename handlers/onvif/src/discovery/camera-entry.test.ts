import { describe, expect, it } from 'vitest'
import type { CameraFacts } from '../device/camera.js'
import {
  answered,
  type CameraAnnouncement,
  type CameraEntry,
  failed,
  heard,
  isOwnAddress,
  isUrgent,
  newEntry,
  queryStarted,
  queryUrls,
} from './camera-entry.js'

const NOW = 1_000_000
const REFRESH_MS = 600_000
const FACTS: CameraFacts = { authentication: 'none', serialNumber: '1' }
const at = (address: string) => `http://${address}/onvif/device_service`
const [HOME, OTHER, THIRD] = [at('10.0.0.1'), at('10.0.0.2'), at('10.0.0.3')]

function announcement(fields: Partial<CameraAnnouncement> = {}): CameraAnnouncement {
  return {
    uuid: 'a',
    urls: [HOME],
    scopes: [],
    metadataVersion: 1,
    source: '10.0.0.1',
    ...fields,
  }
}

const candidate = (fields?: Partial<CameraAnnouncement>) => newEntry('1', announcement(fields), NOW)

const answeredAt = (entry: CameraEntry, url: string, facts = FACTS, silentUrls: string[] = []) =>
  answered(entry, { url, facts, silentUrls }, NOW, () => REFRESH_MS)

const camera = (fields?: Partial<CameraAnnouncement>) => answeredAt(candidate(fields), HOME)

/** Another address announces that the device is at other URLs. */
const elsewhere = (entry: CameraEntry, urls = [OTHER]) =>
  heard(entry, 'ProbeMatch', announcement({ source: '10.0.0.66', urls }), NOW)

function failedTimes(entry: CameraEntry, times: number): CameraEntry {
  let next: CameraEntry = entry
  for (let n = 0; n < times; n++) next = failed(next, NOW)
  return next
}

describe('a candidate', () => {
  it('is queried sooner after news, and not after a repetition', () => {
    const waiting = failedTimes(candidate(), 5)
    expect(heard(waiting, 'ProbeMatch', announcement(), NOW).dueAt).toBe(waiting.dueAt)
    const forged = announcement({ source: '10.0.0.66' })
    expect(heard(waiting, 'Hello', forged, NOW).dueAt).toBe(NOW + 5000)
    expect(elsewhere(waiting).dueAt).toBe(NOW + 5000)
  })

  it('is queried at once after its Hello, every five seconds at most', () => {
    const hello = (entry: CameraEntry, now: number) => heard(entry, 'Hello', announcement(), now)
    const woken = hello(failedTimes(candidate(), 5), NOW)
    expect([woken.dueAt, isUrgent(woken)]).toEqual([NOW, true])
    expect(isUrgent(queryStarted(woken))).toBe(false)
    const again = hello(failedTimes(queryStarted(woken), 1), NOW + 1000)
    expect([again.dueAt, isUrgent(again)]).toEqual([NOW + 5000, true])
    const later = hello(failedTimes(queryStarted(again), 1), NOW + 60_000)
    expect([later.dueAt, isUrgent(later)]).toEqual([NOW + 60_000, true])
  })

  it('is queried at once after a query during which it said Hello', () => {
    const queried = queryStarted(failedTimes(candidate(), 5))
    const moved = announcement({ urls: [HOME, THIRD] })
    const failedAfter = failedTimes(heard(queried, 'Hello', moved, NOW), 1)
    expect([failedAfter.dueAt, isUrgent(failedAfter)]).toEqual([NOW, true])
    expect(queryUrls(failedAfter)).toEqual([HOME, THIRD])
  })
})

describe('a camera', () => {
  it('takes the announcement of the address that named its new URL', () => {
    expect(answeredAt(elsewhere(camera()), OTHER).announcement.source).toBe('10.0.0.66')
  })
})

describe('a query', () => {
  it('calls the URLs of a candidate, and then the URLs of the last other announcement', () => {
    expect(queryUrls(elsewhere(candidate({ urls: [THIRD, HOME] })))).toEqual([THIRD, HOME, OTHER])
  })

  it('calls eight URLs at most', () => {
    const urls = Array.from({ length: 20 }, (_, n) => at(`10.1.0.${n}`))
    expect(queryUrls(elsewhere(camera(), urls))).toEqual([HOME, ...urls.slice(0, 7)])
  })

  it('ends with its result, and with the other announcement', () => {
    const started = queryStarted(elsewhere(camera()))
    expect(started.isQueried).toBe(true)
    for (const ended of [answeredAt(started, HOME), failed(started, NOW)])
      expect(ended).toMatchObject({ isQueried: false, elsewhere: undefined })
  })
})

describe('the own address of a device', () => {
  it('is the address that announced it if the URL has a host name', () => {
    const entry = candidate({ urls: ['http://camera.example/'], source: 'fe80::1%eth0' })
    expect([isOwnAddress(entry, 'fe80::1%eth0'), isOwnAddress(entry, 'fe80::1%eth1')]).toEqual([
      true,
      false,
    ])
  })
})
