import { type Clock, systemClock } from '@akrijs/sdk'
import { ManualClock } from '@akrijs/sdk/testing'
import { describe, expect, it } from 'vitest'
import { soapFault } from '../testing/device-replies.js'
import { DeviceService, type DeviceServiceOptions } from '../testing/device-service.js'
import { credential, INFORMATION, query } from '../testing/internal/camera-query.js'
import type { Misbehaviour } from '../testing/misbehaviour.js'
import { RefusedCredentials } from './refused-credentials.js'

/** The operations that the handler calls. */
const ALL = [
  'GetSystemDateAndTime',
  'GetDeviceInformation',
  'GetNetworkInterfaces',
  'GetScopes',
  'GetServices',
]
const wrong = { username: 'operator', password: 'hunter2' }
const tokenCamera = (options: DeviceServiceOptions = {}) =>
  DeviceService.start({ credential, authentication: ['username-token'], ...options })
const remembering = (clock: Clock = systemClock) => new RefusedCredentials({ forMs: 60_000, clock })
/** Attempts by either scheme: a camera may count both. */
const attemptsAt = ({ requests }: DeviceService) =>
  requests.filter(
    ({ headers, body }) => headers.authorization !== undefined || body.includes('UsernameToken'),
  ).length

describe('a credential that a camera refuses', () => {
  it('is tried once, by any query and URL; another credential is tried too', async () => {
    await using camera = await tokenCamera()
    const refused = remembering()
    const facts = await Promise.all(
      [1, 2, 3, 4, 5].map((n) => query(`${camera.url}?${n}`, { as: wrong, refused })),
    )
    expect(facts).toEqual(Array(5).fill({ authentication: 'refused' }))
    expect(attemptsAt(camera)).toBe(1)
    expect(await query(camera.url, { as: credential, refused })).toMatchObject({
      authentication: 'accepted',
      ...INFORMATION,
    })
    expect(await query(camera.url, { as: wrong, refused })).toEqual({ authentication: 'refused' })
    expect(attemptsAt(camera)).toBe(1 + 3)
  })

  it.each([
    ['401 and the fault of the specification', { status: 401, subcode: 'NotAuthorized' }],
    ['401 and another fault', { status: 401, subcode: 'InvalidArgVal' }],
    ['401 and a fault without a subcode', { status: 401 }],
    ['403 and another fault', { status: 403, subcode: 'Action' }],
    ['400 and a fault without a subcode', { status: 400 }],
    ['400 and another fault', { status: 400, subcode: 'InvalidArgVal' }],
    ['500 and a fault without a subcode', { status: 500 }],
    ['200 and a fault without a subcode', { status: 200 }],
  ])('is tried once by a query, also if the camera answers %s', async (_how, refusal) => {
    await using camera = await tokenCamera({ refusal })
    const refused = remembering()
    const asked = () => query(camera.url, { as: wrong, refused, options: { mediaProfiles: true } })
    expect(await asked()).toMatchObject({ authentication: 'refused' })
    expect(attemptsAt(camera)).toBe(1)
    expect(await asked()).toMatchObject({ authentication: 'refused' })
    expect(attemptsAt(camera)).toBe(1)
  })

  it.each([
    ['UsernameToken', ['username-token']],
    ['HTTP digest', ['http-digest']],
    ['both', ['username-token', 'http-digest']],
  ] as const)('is tried by one scheme only at a camera with %s', async (_which, kinds) => {
    for (const openOperations of [undefined, []]) {
      const options = { credential, authentication: kinds }
      await using camera = await DeviceService.start({
        ...options,
        ...(openOperations && { openOperations }),
      })
      const refused = remembering()
      const asked = () => query(camera.url, { as: wrong, refused }).catch(() => undefined)
      await asked()
      await asked()
      expect(attemptsAt(camera)).toBe(1)
      expect(await query(camera.url, { as: credential, refused })).toMatchObject({
        authentication: 'accepted',
        ...INFORMATION,
      })
    }
  })

  describe('is not refused by a camera with a broken operation', () => {
    const media = { mediaProfiles: true }
    const broken = (status: number, body = ''): Misbehaviour => ({
      answer: (response) => response.writeHead(status).end(body),
    })
    const BROKEN: [string, Misbehaviour][] = [
      ['400 and a fault of its own', broken(400, soapFault(undefined, 'not implemented'))],
      ['500 and a fault of its own', broken(500, soapFault('InvalidArgVal', 'no such value'))],
      ['200 and a fault of its own', broken(200, soapFault('Action', 'failed'))],
      ['a missing operation', 'fault'],
      ['500 without SOAP', 'server-error'],
      ['404 without SOAP', broken(404)],
      ['503 for ever', broken(503)],
      ['a redirect', { redirect: 'http://127.0.0.1/login' }],
      ['a page', 'html'],
    ]

    it.each(BROKEN)('that answers with and without it: %s', async (_how, misbehaviour) => {
      for (const operations of [['GetNetworkInterfaces'], ALL.slice(1, 4)]) {
        await using camera = await DeviceService.start({ credential, openOperations: ALL })
        camera.misbehave(misbehaviour, operations)
        const failures: string[] = []
        const refused = new RefusedCredentials({ forMs: 600_000, clock: systemClock })
        const onFailure = ({ message }: Error) => failures.push(message)
        const request = { as: credential, refused, options: media, onFailure }
        const facts = await query(camera.url, request)
        expect(facts).toMatchObject({ authentication: 'accepted' })
        expect(facts.profiles?.map(({ token }) => token)).toEqual(['main', 'sub'])
        expect(failures.map((text) => text.split(':')[0])).toEqual(operations)
        // A wrong password is refused by the first call that asks for a credential.
        const other = await query(camera.url, { as: wrong, refused, options: media })
        expect(other).toMatchObject({ authentication: 'refused' })
      }
    })

    it.each(BROKEN)('that asks for it first: %s', async (_how, misbehaviour) => {
      await using camera = await DeviceService.start({ credential })
      camera.misbehave(misbehaviour, ['GetDeviceInformation', 'GetNetworkInterfaces'])
      const facts = await query(camera.url, { as: credential, options: media })
      // 503 to a call that asks for a credential may be a camera that starts.
      const isBusy = facts.incomplete?.code === 'AKRI_ERR_ONVIF_BUSY'
      expect(facts.authentication).toBe(isBusy ? 'none' : 'accepted')
      if (!isBusy) expect(facts.profiles).toHaveLength(2)
    })

    it('and is tried a few times only, if all operations are broken', async () => {
      await using camera = await DeviceService.start({ credential, openOperations: ALL })
      camera.misbehave('server-error', ALL.slice(1))
      const clock = new ManualClock(0)
      const refused = remembering(clock)
      const attempts: number[] = []
      for (let seconds = 0; seconds <= 60; seconds += 30) {
        expect(await query(camera.url, { as: wrong, refused })).toEqual({ authentication: 'none' })
        attempts.push(attemptsAt(camera))
        await clock.advance(30_000)
      }
      expect(attempts).toEqual([2, 2, 4])
    })

    it('and is tried a few times only, if all operations ask for it', async () => {
      await using camera = await tokenCamera({ openOperations: [] })
      camera.misbehave(broken(400, soapFault('Action', 'failed')))
      const refused = remembering()
      for (const attempts of [3, 4, 4]) {
        const facts = await query(camera.url, { as: credential, refused })
        expect(facts).toEqual({ authentication: 'required' })
        expect(attemptsAt(camera)).toBe(attempts)
      }
    })
  })

  it('is tried by UsernameToken next if a camera refuses the digest that it asks for', async () => {
    // Each digest is stale.
    await using camera = await DeviceService.start({ credential, nonceUses: 0 })
    const clock = new ManualClock(0)
    const refused = remembering(clock)
    const asked = async () => {
      const { authentication } = await query(camera.url, { as: credential, refused })
      await clock.advance(60_000)
      return authentication
    }
    expect([await asked(), await asked(), await asked()]).toEqual([
      'refused',
      'accepted',
      'accepted',
    ])
  })

  describe('with a token', () => {
    const HOUR_MS = 3_600_000
    const utc = (time: Date) =>
      `<tt:UTCDateTime><tt:Time><tt:Hour>${time.getUTCHours()}</tt:Hour>` +
      `<tt:Minute>${time.getUTCMinutes()}</tt:Minute><tt:Second>${time.getUTCSeconds()}` +
      `</tt:Second></tt:Time><tt:Date><tt:Year>${time.getUTCFullYear()}</tt:Year><tt:Month>` +
      `${time.getUTCMonth() + 1}</tt:Month><tt:Day>${time.getUTCDate()}</tt:Day></tt:Date>` +
      '</tt:UTCDateTime>'
    /** A camera that tells its local time as UTC, and in its header `Date`. */
    const lying = (toldMs: number | undefined, dateMs: number): Misbehaviour => ({
      answer: (response, correct) => {
        const at = (ms: number) => new Date(Date.now() + ms)
        response.setHeader('date', at(dateMs).toUTCString())
        const text = toldMs === undefined ? '' : utc(at(toldMs))
        response.end(correct.replace(/<tt:UTCDateTime>.*<\/tt:UTCDateTime>/, text))
      },
    })

    it.each<[string, number | undefined, number, number, number[]]>([
      ['its own time', 0, 0, 0, [0, 0, 0]],
      ['its own time, which is a year behind', -8760, -8760, -8760, [0, 0, 0]],
      ['the local time, in the east', 2, 0, 0, [1, 0, 0]],
      ['the local time, in the west', -5, 0, 0, [1, 0, 0]],
      ['the local time, also as Date', 5.5, 5.5, 0, [1, 0, 0]],
      ['no time but a wrong Date', undefined, -490_000, 0, [1, 0, 0]],
      ['the local time of a clock that is a day behind', -22, -24, -24, [1, 0, 0]],
      ['two wrong times', 2, -490_000, 0, [2, 0, 0]],
    ])('is accepted by a camera that tells %s', async (_what, told, date, clockHours, refusals) => {
      await using camera = await tokenCamera({ clockOffsetMs: clockHours * HOUR_MS })
      const toldMs = told === undefined ? undefined : told * HOUR_MS
      camera.misbehave(lying(toldMs, date * HOUR_MS), ['GetSystemDateAndTime'])
      const clock = new ManualClock(0)
      const refused = remembering(clock)
      const seen: [authentication: string, refusals: number][] = []
      let before = 0
      for (const _ of refusals) {
        const { authentication } = await query(camera.url, { as: credential, refused })
        const accepted = authentication === 'accepted' ? 3 : 0
        seen.push([authentication, attemptsAt(camera) - before - accepted])
        before = attemptsAt(camera)
        await clock.advance(60_000)
      }
      // The third time is the next one to try.
      const first = refusals[0] === 2 ? 'refused' : 'accepted'
      expect(seen).toEqual(refusals.map((count, n) => [n === 0 ? first : 'accepted', count]))
    })

    it('of a wrong password locks no user out: two times are tried at once', async () => {
      await using camera = await tokenCamera()
      camera.misbehave(lying(2 * HOUR_MS, -5 * HOUR_MS), ['GetSystemDateAndTime'])
      const clock = new ManualClock(0)
      const refused = remembering(clock)
      const attempts: number[] = []
      for (let seconds = 0; seconds <= 150; seconds += 30) {
        expect(await query(camera.url, { as: wrong, refused })).toEqual({
          authentication: 'refused',
        })
        attempts.push(attemptsAt(camera))
        await clock.advance(30_000)
      }
      expect(attempts).toEqual([2, 2, 3, 3, 5, 5])
    })
  })

  it.each([
    ['a fault of another code', { status: 401, subcode: 'InvalidArgVal' }],
    ['a fault without a subcode', { status: 403 }],
  ])('is required by a camera that answers 401 or 403 with %s', async (_what, refusal) => {
    await using camera = await tokenCamera({ refusal })
    expect(await query(camera.url)).toEqual({ authentication: 'required' })
  })

  describe('by a camera that is too busy to check it', () => {
    const forMs = 600_000
    const busy = (status: number, body = '<p>starting'): Misbehaviour => ({
      answer: (response) => response.writeHead(status).end(body),
    })

    it.each([408, 429, 502, 503, 504])(
      'is no refused credential, and is tried again after 30 s: %d',
      async (status) => {
        await using camera = await DeviceService.start({ credential })
        const clock = new ManualClock(0)
        const refused = new RefusedCredentials({ forMs, clock })
        const asked = () => query(camera.url, { as: credential, refused })
        camera.misbehave(busy(status), ['GetDeviceInformation'])
        const facts = await Promise.all([asked(), asked()])
        await clock.advance(29_999)
        facts.push(await asked())
        expect(facts.map(({ incomplete }) => incomplete?.code)).toEqual(
          Array(3).fill('AKRI_ERR_ONVIF_BUSY'),
        )
        expect(facts.map(({ authentication }) => authentication)).not.toContain('refused')
        expect(attemptsAt(camera)).toBe(1)
        camera.misbehave(undefined)
        await clock.advance(1)
        expect(await asked()).toMatchObject({ authentication: 'accepted', ...INFORMATION })
      },
    )

    it('is tried less and less often, and in the end as a refused credential', async () => {
      await using camera = await DeviceService.start({ credential })
      camera.misbehave(busy(503), ['GetDeviceInformation'])
      const clock = new ManualClock(0)
      const refused = new RefusedCredentials({ forMs, clock })
      const tried: [seconds: number, authentication: string][] = []
      for (let seconds = 0; seconds <= 2130; seconds += 30) {
        const before = attemptsAt(camera)
        const { authentication } = await query(camera.url, { as: credential, refused })
        if (attemptsAt(camera) > before) tried.push([seconds, authentication])
        await clock.advance(30_000)
      }
      expect(tried).toEqual([
        ...[0, 30, 90, 210, 450].map((seconds) => [seconds, 'none']),
        ...[930, 1530, 2130].map((seconds) => [seconds, 'refused']),
      ])
    })

    it('waits 30 s again after the camera has accepted it', async () => {
      await using camera = await DeviceService.start({ credential })
      const clock = new ManualClock(0)
      const refused = remembering(clock)
      const asked = async () => {
        const { authentication } = await query(camera.url, { as: credential, refused })
        await clock.advance(30_000)
        return authentication
      }
      for (let n = 0; n < 3; n++) {
        camera.misbehave(busy(503), ['GetDeviceInformation'])
        expect(await asked()).toBe('none')
        camera.misbehave(undefined)
        expect(await asked()).toBe('accepted')
      }
    })

    it.each([
      ['NotAuthorized', '', 'refused'],
      ['FailedAuthentication', '', 'refused'],
      ['Action', 'Wrong password', 'refused'],
      ['Busy', 'Try again later', 'none'],
    ])('is refused only if the fault says so: %s %s', async (subcode, reason, authentication) => {
      await using camera = await DeviceService.start({ credential })
      camera.misbehave(busy(503, soapFault(subcode, reason)), ['GetDeviceInformation'])
      expect(await query(camera.url, { as: credential })).toMatchObject({ authentication })
      expect(attemptsAt(camera)).toBe(1)
    })

    it('is accepted still if the camera has no time for a later call only', async () => {
      await using camera = await DeviceService.start({ credential })
      camera.misbehave(busy(503), ['GetNetworkInterfaces'])
      const facts = await query(camera.url, { as: credential })
      expect(facts).toMatchObject({ authentication: 'accepted', scopes: expect.any(Array) })
      expect(facts.incomplete).toBeUndefined()
    })
  })

  it('is tried at another port of the address, where another camera may be', async () => {
    await using camera = await tokenCamera({ credential: wrong })
    await using other = await tokenCamera()
    const refused = remembering()
    expect(await query(camera.url, { as: credential, refused })).toEqual({
      authentication: 'refused',
    })
    expect(await query(other.url, { as: credential, refused })).toMatchObject({
      authentication: 'accepted',
    })
  })

  it('does not count as refused if the camera did not answer', async () => {
    await using camera = await tokenCamera()
    camera.misbehave('closed-connection', ['GetDeviceInformation'])
    const refused = remembering()
    const asked = () => query(camera.url, { as: credential, refused })
    const facts = await Promise.all([asked(), asked()])
    expect(facts.map(({ incomplete }) => incomplete?.code)).toEqual(
      Array(2).fill('AKRI_ERR_ONVIF_UNREACHABLE'),
    )
    camera.misbehave(undefined)
    expect(await asked()).toMatchObject({ authentication: 'accepted' })
  })
})
