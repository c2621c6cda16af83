import { describe, expect, it } from 'vitest'
import { NetworkPolicy } from '../network-policy.js'
import { DeviceService, type DeviceServiceOptions } from '../testing/device-service.js'
import {
  credential,
  expectNoPassword,
  INFORMATION,
  NETWORK,
  query,
} from '../testing/internal/camera-query.js'
import type { Misbehaviour } from '../testing/misbehaviour.js'

describe('a camera', () => {
  it('tells its facts, with one request for each', async () => {
    await using camera = await DeviceService.start()
    const facts = await query(camera.url)
    expect(facts).toEqual({
      authentication: 'none',
      ...INFORMATION,
      ...NETWORK,
      scopes: [
        'onvif://www.onvif.org/name/simulated',
        'onvif://www.onvif.org/location/laboratory',
        'onvif://www.onvif.org/hardware/simulated',
        'onvif://www.onvif.org/type/video_encoder',
        'onvif://www.onvif.org/Profile/Streaming',
      ],
    })
    expect(camera.requests.map(({ operation }) => operation)).toEqual([
      'GetSystemDateAndTime',
      'GetDeviceInformation',
      'GetNetworkInterfaces',
      'GetScopes',
    ])
  })

  it('D2 may have an IPv6 address', async () => {
    await using camera = await DeviceService.start({ address: '::1' })
    expect(new URL(camera.url).hostname).toBe('[::1]')
    expect(await query(camera.url)).toMatchObject({ ...INFORMATION, ipAddress: '192.0.2.1' })
    expect(camera.requests[0]?.headers.host).toBe(`[::1]:${camera.port}`)
  })

  it('tells the addresses of the interface that was called', async () => {
    const identity = { ipAddress: '192.168.1.108' }
    await using camera = await DeviceService.start({ identity })
    const real = (correct: string) =>
      correct.replace(/(<tds:NetworkInterfaces.*<\/tds:NetworkInterfaces>)/, (all) => {
        const second = all.replace('02:00:00:00:00:01', '02:00:00:00:00:02')
        return `${all}${second.replace('192.168.1.108', '127.0.0.1')}`
      })
    const answer: Misbehaviour = { answer: (response, correct) => response.end(real(correct)) }
    camera.misbehave(answer, ['GetNetworkInterfaces'])
    expect(await query(camera.url)).toMatchObject({
      ipAddress: '127.0.0.1',
      macAddress: '02:00:00:00:00:02',
    })
  })

  it('may have a host name', async () => {
    await using camera = await DeviceService.start()
    const options = {
      policy: new NetworkPolicy([{ address: '127.0.0.0', prefix: 8, family: 'ipv4' }], {
        hostNames: { addressesOf: async () => ['127.0.0.1'] },
      }),
    }
    expect(
      await query(`http://camera.example:${camera.port}/onvif/device_service`, { options }),
    ).toMatchObject(INFORMATION)
    expect(camera.requests[0]?.headers.host).toBe(`camera.example:${camera.port}`)
  })

  it('tells texts: not as numbers, on one line, and with a limit', async () => {
    const identity = {
      serialNumber: '12345678901234567890',
      firmware: ' 1.\n10\u202e ',
      model: 'é'.repeat(1000),
      hardwareId: '',
    }
    await using camera = await DeviceService.start({ identity })
    const { serialNumber, firmware, model, hardwareId } = await query(camera.url)
    expect([serialNumber, firmware, model?.length, hardwareId]).toEqual([
      '12345678901234567890',
      '1. 10',
      257,
      undefined,
    ])
  })

  it.each([
    ['by UsernameToken', { authentication: ['username-token'] }, 5],
    ['by HTTP digest', { authentication: ['http-digest'] }, 5],
    ['by HTTP digest with MD5', { authentication: ['http-digest'], algorithms: ['MD5'] }, 5],
    [
      'by HTTP digest with one request for each nonce',
      { authentication: ['http-digest'], nonceUses: 1 },
      7,
    ],
    ['by both', {}, 5],
    ['with a clock that is behind by years', { clockOffsetMs: -20 * 365 * 86_400_000 }, 5],
    [
      'with a clock that is ahead',
      { clockOffsetMs: 3_600_000, authentication: ['username-token'] },
      5,
    ],
  ] satisfies [string, Partial<DeviceServiceOptions>, number][])(
    'authenticates the handler: %s',
    async (_how, options, requests) => {
      await using camera = await DeviceService.start({ credential, ...options })
      expect(await query(camera.url, { as: credential })).toMatchObject({
        authentication: 'accepted',
        ...INFORMATION,
        ...NETWORK,
      })
      expect(camera.requests.length).toBe(requests)
      expectNoPassword(camera, credential)
    },
  )

  it.each([-20 * 365 * 86_400_000, -3_600_000, 3_600_000])(
    'that wants a credential for its clock too tells the time in each answer: %d ms',
    async (clockOffsetMs) => {
      await using camera = await DeviceService.start({
        credential,
        openOperations: [],
        authentication: ['username-token'],
        clockOffsetMs,
      })
      expect(await query(camera.url, { as: credential })).toMatchObject({
        authentication: 'accepted',
        ...INFORMATION,
      })
    },
  )

  it.each([
    ['with markup', { username: 'a<b>&"c\'', password: '<&>"' }],
    ['of other scripts', { username: '操作员 é', password: 'пароль' }],
    ['with an empty password', { username: 'operator', password: '' }],
  ])('knows user names and passwords %s', async (_what, as) => {
    for (const authentication of ['username-token', 'http-digest'] as const) {
      await using camera = await DeviceService.start({
        credential: as,
        authentication: [authentication],
      })
      expect(await query(camera.url, { as })).toMatchObject({
        authentication: 'accepted',
        ...INFORMATION,
      })
    }
  })

  it('that asks for the plain password does not get it', async () => {
    await using camera = await DeviceService.start({ credential })
    camera.misbehave('basic-challenge', ['GetDeviceInformation'])
    await query(camera.url, { as: credential })
    expect(camera.requests.some(({ headers }) => headers.authorization?.startsWith('Basic'))).toBe(
      false,
    )
    expectNoPassword(camera, credential)
  })
})
