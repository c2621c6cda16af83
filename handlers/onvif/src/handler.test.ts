import { randomUUID } from 'node:crypto'
import { isIPv4 } from 'node:net'
import { silentLogger } from '@akrijs/sdk'
import { machineAddresses } from '@akrijs/sdk/network'
import { describe, expect, it, vi } from 'vitest'
import { alone } from '../../../test/support/alone.js'
import { eventually } from '../../../test/support/eventually.js'
import { freePort } from '../../../test/support/free-port.js'
import { createOnvifHandler } from './index.js'
import { soapEnvelope, soapFault } from './testing/device-replies.js'
import { DiscoveryResponder } from './testing/discovery-responder.js'
import {
  type AnnouncementText,
  DeviceService,
  type DiscoveryFaults,
  type Misbehaviour,
  SimulatedCamera,
  type SimulatedCameraOptions,
} from './testing/index.js'
import { announcementAt, sayHello } from './testing/internal/announcements.js'
import { tls } from './testing/internal/certificates.js'
import {
  clock,
  close,
  endRound,
  find,
  IP,
  idsOf,
  next,
  nextRound,
  nextRounds,
  open,
  start,
} from './testing/internal/rounds.js'

// All tests of this machine share the loopback interface; each finds only its own cameras by their
// UUIDs.
alone()

const credential = { username: 'admin', password: 'secret' }

function announcementOf({ uuid, service }: SimulatedCamera): AnnouncementText {
  return {
    uuid,
    xAddrs: [service.url],
    types: ['dn:NetworkVideoTransmitter'],
    scopes: [],
    metadataVersion: 1,
  }
}

describe('the ONVIF handler', () => {
  it('offers a camera with the properties of the original Akri, and more', async () => {
    const camera = await start()
    expect(await find()).toEqual([
      {
        id: `${camera.service.url}-${camera.uuid}`,
        properties: {
          ONVIF_DEVICE_SERVICE_URL: camera.service.url,
          ONVIF_DEVICE_UUID: camera.uuid,
          ONVIF_DEVICE_IP_ADDRESS: IP,
          ONVIF_DEVICE_MAC_ADDRESS: camera.service.identity.macAddress,
          ONVIF_DEVICE_MANUFACTURER: 'Akri',
          ONVIF_DEVICE_MODEL: 'Simulated camera',
          ONVIF_DEVICE_FIRMWARE_VERSION: '1.10',
          ONVIF_DEVICE_SERIAL_NUMBER: camera.service.identity.serialNumber,
          ONVIF_DEVICE_HARDWARE_ID: 'simulated',
          ONVIF_DEVICE_SCOPES:
            'onvif://www.onvif.org/name/simulated onvif://www.onvif.org/location/laboratory ' +
            'onvif://www.onvif.org/hardware/simulated ' +
            'onvif://www.onvif.org/type/video_encoder ' +
            'onvif://www.onvif.org/Profile/Streaming',
          ONVIF_DEVICE_AUTHENTICATION: 'none',
        },
        mounts: [],
        deviceSpecs: [],
      },
    ])
  })

  it('offers a camera by its UUID alone with deviceId: uuid', async () => {
    const camera = await start()
    expect(idsOf(await find({ deviceId: 'uuid' }))).toEqual([camera.uuid])
  })

  it('offers media profiles with mediaProfiles', async () => {
    const camera = await start()
    const [device] = await find({ mediaProfiles: true })
    expect(device?.properties).toMatchObject({
      ONVIF_DEVICE_PROFILE_0_TOKEN: 'main',
      ONVIF_DEVICE_PROFILE_0_SNAPSHOT_URI: expect.stringContaining(
        `http://${IP}:${camera.service.port}/`,
      ),
      ONVIF_DEVICE_PROFILE_1_TOKEN: 'sub',
    })
  })

  it('offers a camera that requires or refuses a credential, and says so', async () => {
    const camera = await start({ credential })
    const authentication = async (properties: Readonly<Record<string, string>>) => {
      const [device] = await find({}, { properties })
      return [
        device?.properties?.ONVIF_DEVICE_AUTHENTICATION,
        device?.properties?.ONVIF_DEVICE_SERIAL_NUMBER,
      ]
    }
    expect(await authentication({})).toEqual(['required', undefined])
    expect(await authentication({ username_default: 'admin', password_default: 'wrong' })).toEqual([
      'refused',
      undefined,
    ])
    const name = camera.uuid.replaceAll('-', '_')
    expect(
      await authentication({ [`username_${name}`]: 'admin', [`password_${name}`]: 'secret' }),
    ).toEqual(['accepted', camera.service.identity.serialNumber])
  })

  it('filters cameras by address, hardware address and scopes', async () => {
    const scopes = ['onvif://www.onvif.org/name/one', 'onvif://www.onvif.org/x']
    const { uuid } = await start({ identity: { macAddress: '02:00:00:00:ab:cd', scopes } })
    const filters: [what: string, details: object, found: boolean][] = [
      ['no filter', {}, true],
      ['its address', { ipAddresses: { items: [IP] } }, true],
      ['another address', { ipAddresses: { items: ['10.0.0.1'] } }, false],
      [
        'its hardware address in upper case',
        { macAddresses: { items: ['02:00:00:00:AB:CD'] } },
        true,
      ],
      [
        'its hardware address with dashes',
        { macAddresses: { items: ['02-00-00-00-AB-CD'] } },
        true,
      ],
      [
        'its hardware address without separators',
        { macAddresses: { items: ['02000000abcd'] } },
        true,
      ],
      ['its UUID with urn:uuid:', { uuids: { items: [`urn:uuid:${uuid.toUpperCase()}`] } }, true],
      [
        'any UUID but its own',
        { uuids: { items: [`URN:UUID:${uuid}`], action: 'Exclude' } },
        false,
      ],
      [
        'filters of nothing',
        { ipAddresses: null, macAddresses: {}, scopes: { items: null } },
        true,
      ],
      ['one of its scopes', { scopes: { items: ['onvif://www.onvif.org/name/one'] } }, true],
      ['a part of its scope', { scopes: { items: ['onvif://www.onvif.org/name'] } }, false],
    ]
    const sessions = filters.map(([, details]) => open(details))
    await endRound()
    const found = await Promise.all(
      filters.map(async ([what], index) => {
        const devices = await next(sessions[index] ?? expect.fail())
        // A filter of UUIDs can let cameras of other programs through.
        return [what, devices.some(({ properties }) => properties?.ONVIF_DEVICE_UUID === uuid)]
      }),
    )
    expect(found).toEqual(filters.map(([what, , wanted]) => [what, wanted]))
  })

  it('D2 tells why each camera that answered is not offered', async () => {
    const foreign = await start({ xAddrs: ['http://10.1.2.3/', 'rtsp://10.1.2.3/'] })
    const closed = await start({ xAddrs: [`http://${IP}:${await freePort(IP)}/`] })
    const hung = await start()
    hung.service.misbehave('silence')
    hung.faults.silent = true
    const nowhere = await start({ xAddrs: [] })
    const scopes = await start({ identity: { scopes: ['onvif://other'] } })
    const shy = await start({ credential, authentication: ['username-token'] })
    const elsewhere = await start({ identity: { ipAddress: '10.9.9.9' } })
    const offered = await start()
    await using uuids = await SimulatedCamera.start({ address: IP })
    uuids.faults.delayMs = 0
    const session = open({
      ipAddresses: { items: [IP] },
      scopes: { items: ['onvif://other'], action: 'Exclude' },
    })
    await endRound()
    const found = await next(session)
    expect(found.map(({ properties }) => properties?.ONVIF_DEVICE_UUID)).toEqual([offered.uuid])
    await hung.hello()
    await eventually(() => expect(hung.service.requests).toHaveLength(1))
    await clock.advance(3000)
    await next(session, () => session.leftOut.some(({ id }) => id.startsWith(hung.uuid)))
    const reasons = new Map(
      session.leftOut.map(({ id, reason, detail }) => [id.split(' ')[0], [reason, detail]]),
    )
    const expected: [SimulatedCamera, string, RegExp | undefined][] = [
      [foreign, 'address not allowed', /10\.1\.2\.3 is not in the allowed networks; .*rtsp/],
      [closed, 'connection refused', /ECONNREFUSED/],
      [hung, 'no answer in time', /longer than 3000 ms/],
      [nowhere, 'no URL announced', undefined],
      [scopes, 'filtered by scopes', undefined],
      [uuids, 'filtered by uuids', undefined],
      [shy, 'filtered by ipAddresses', /does not tell it; authentication: required/],
      [elsewhere, 'filtered by ipAddresses', /10\.9\.9\.9/],
    ]
    for (const [{ uuid }, reason, detail] of expected)
      expect(reasons.get(uuid)).toEqual([reason, detail && expect.stringMatching(detail)])
    expect(reasons.has(offered.uuid)).toBe(false)
  })

  it('forgets why a camera was not offered when it is offered', async () => {
    const camera = await start()
    camera.service.misbehave('html')
    const session = open()
    await endRound()
    expect(await next(session)).toEqual([])
    const reasons = () =>
      session.leftOut.flatMap(({ id, reason }) => (id.startsWith(camera.uuid) ? [reason] : []))
    expect(reasons()).toEqual(['no answer of a camera'])
    camera.service.misbehave(undefined)
    await camera.hello()
    expect(await next(session)).toHaveLength(1)
    expect(reasons()).toEqual([])
  })

  it.each<[string, SimulatedCameraOptions, number, string]>([
    ['', { authentication: ['username-token'] }, 1, 'NotAuthorized: Sender not authorized'],
    [
      ' and answers no call without it',
      { authentication: ['http-digest'], openOperations: [] },
      0,
      'HTTP status 401',
    ],
  ])('logs once in which words a camera refuses%s', async (_which, options, offered, words) => {
    await start({ credential, ...options })
    const log = { ...silentLogger, info: vi.fn() }
    const wrong = { username_default: 'admin', password_default: 'wrong' }
    expect(await find({}, { properties: wrong, log })).toHaveLength(offered)
    const lines = log.info.mock.calls.filter(([, message]) => message === 'credential refused')
    expect(lines).toEqual([
      [expect.objectContaining({ err: expect.any(Error) }), 'credential refused'],
    ])
    expect(lines[0]?.[0].err.message).toContain(words)
    expect(JSON.stringify(log.info.mock.calls)).not.toContain('wrong')
  })

  it('logs the words of a camera with a broken operation, until they change', async () => {
    const camera = await start()
    const answering = (reason: string): Misbehaviour => ({
      answer: (response) => response.writeHead(400).end(soapFault(undefined, reason)),
    })
    const log = { ...silentLogger, info: vi.fn() }
    const session = open({}, { log })
    const asked = () =>
      camera.service.requests.filter(({ operation }) => operation === 'GetScopes').length
    camera.service.misbehave(answering('not implemented'), ['GetNetworkInterfaces'])
    await endRound()
    expect((await next(session))[0]?.properties?.ONVIF_DEVICE_AUTHENTICATION).toBe('none')
    for (const reason of ['not implemented', 'broken']) {
      const before = asked()
      camera.service.misbehave(answering(reason), ['GetNetworkInterfaces'])
      await camera.hello()
      for (let round = 0; round < 4; round++) await nextRound()
      await eventually(() => expect(asked()).toBe(before + 1))
    }
    const words = () =>
      log.info.mock.calls.flatMap(([{ err }, message]) =>
        message === 'camera calls failed' ? [err.message] : [],
      )
    await eventually(() =>
      expect(words()).toEqual([
        'GetNetworkInterfaces: Sender: not implemented',
        'GetNetworkInterfaces: Sender: broken',
      ]),
    )
  })

  it('reports a camera whose media cannot be reached', async () => {
    const camera = await start()
    camera.service.misbehave(
      { answer: (response, correct) => response.end(correct.replaceAll(`//${IP}`, '//10.9.9.9')) },
      ['GetServices'],
    )
    const session = open({ mediaProfiles: true, deviceId: 'uuid' })
    await endRound()
    expect(await next(session)).toHaveLength(1)
    const detail = 'media service: 10.9.9.9 is not in the allowed networks'
    expect(session.problems).toEqual([{ id: camera.uuid, reason: 'media not reachable', detail }])
  })

  it('tries a refused credential once in refreshSeconds, whatever is announced', async () => {
    const { service } = await start({
      credential,
      authentication: ['username-token'],
      // Another time would be a second token.
      clockOffsetMs: clock.wallMs() - Date.now(),
    })
    const properties = { username_default: 'admin', password_default: 'wrong' }
    const handler = createOnvifHandler({ clock, intervalMs: 86_400_000 })
    const session = open({ uuids: null, refreshSeconds: 600 }, { properties, handler })
    await endRound()
    const [device] = await next(session)
    expect(device?.properties?.ONVIF_DEVICE_AUTHENTICATION).toBe('refused')
    const queries = () =>
      service.requests.filter(({ operation }) => operation === 'GetScopes').length
    const attempts = () =>
      service.requests.filter(({ body }) => body.includes('UsernameToken')).length
    /** A forged Hello with another UUID and URL causes a query of the camera. */
    const provoke = async () => {
      const before = queries()
      await sayHello(['127.77.0.66'], { xAddrs: [`${service.url}?${before}`] })
      await eventually(() => expect(queries()).toBe(before + 1))
    }
    expect(attempts()).toBe(1)
    for (let passed = 30_000; passed < 570_000; passed += 30_000) {
      await clock.advance(30_000)
      await provoke()
    }
    expect(attempts()).toBe(1)
    for (const ms of [60_000, 30_000]) {
      await clock.advance(ms)
      await provoke()
      expect(attempts()).toBe(2)
    }
  })

  it('reports each camera that refuses the credential, until it accepts it', async () => {
    const camera = await start({ credential })
    await start()
    const wrong = { username_default: 'admin', password_default: 'wrong' }
    const read = async (properties: Readonly<Record<string, string>>) => {
      const session = open({ deviceId: 'uuid' }, { properties })
      await endRound()
      const devices = await next(session)
      await close(session)
      return [devices.length, session.problems]
    }
    expect(await read(wrong)).toEqual([2, [{ id: camera.uuid, reason: 'credential refused' }]])
    expect(await read({ ...wrong, password_default: 'secret' })).toEqual([2, []])
    // Without a credential, nothing was refused.
    expect(await read({})).toEqual([2, []])
  })

  it('does not find a camera by a filter of an unknown address', async () => {
    await start({ credential })
    expect(await find({ ipAddresses: { items: ['10.0.0.1'], action: 'Exclude' } })).toEqual([])
    expect(await find({ ipAddresses: { items: [], action: 'Exclude' } })).toHaveLength(1)
  })

  it('D2 never calls a camera that UUID or scopes exclude', async () => {
    const camera = await start()
    const others = { items: [camera.uuid.toUpperCase()], action: 'Exclude' }
    expect(await find({ uuids: others, scopes: { items: ['onvif://nothing'] } })).toEqual([])
    expect(camera.probes).toBeGreaterThan(0)
    expect(camera.service.requests).toEqual([])
  })

  it('D2 does not call a known camera in rounds without changes', async () => {
    const [camera, ruledOut] = [await start(), await start()]
    const session = open({ macAddresses: { items: [camera.service.identity.macAddress] } })
    await endRound()
    expect(await next(session)).toHaveLength(1)
    const before = [camera, ruledOut].map(({ service }) => service.requests.length)
    const probes = camera.probes
    await nextRound()
    await nextRound()
    expect(camera.probes).toBe(probes + 4)
    expect([camera, ruledOut].map(({ service }) => service.requests.length)).toEqual(before)
  })

  it('offers a camera with several URLs once, at the first URL that answers', async () => {
    const dead = await freePort(IP)
    const camera = await start()
    const xAddrs = [
      `http://${IP}:${dead}/onvif/device_service`,
      camera.service.url,
      `http://127.77.0.1:${dead}/x`,
    ]
    const both = await start({ xAddrs })
    expect(idsOf(await find({ uuids: { items: [both.uuid] } }))).toEqual([
      `${camera.service.url}-${both.uuid}`,
    ])
  })

  it('gives a camera with several URLs one id on all nodes, after a lost request too', async () => {
    await using first = await DeviceService.start({ address: IP })
    await using second = await DeviceService.start({ address: IP })
    const camera = await start({ xAddrs: [first.url, second.url] })
    first.misbehave('silence')
    const unlucky = open()
    await endRound()
    await eventually(() => expect(first.requests).toHaveLength(1))
    first.misbehave(undefined)
    // The time limit of a request.
    await clock.advance(3000)
    const id = `${first.url}-${camera.uuid}`
    expect(idsOf(await next(unlucky))).toEqual([id])
    // The camera had answered at the other URL before.
    expect(second.requests.length).toBeGreaterThan(0)
    await close(unlucky)
    expect(idsOf(await find())).toEqual([id])
  })

  it('reads all matches of an answer', async () => {
    const [speaker, silent] = [await start(), await start()]
    silent.faults.silent = true
    speaker.faults.furtherMatches = [announcementOf(silent)]
    expect(idsOf(await find()).sort()).toEqual(
      [speaker, silent].map(({ service, uuid }) => `${service.url}-${uuid}`).sort(),
    )
  })

  it('finds cameras with https; with verify only those with a signed certificate', async () => {
    const camera = await start({ tls })
    expect(idsOf(await find())).toEqual([
      `https://${IP}:${camera.service.port}/onvif/device_service-${camera.uuid}`,
    ])
    expect(await find({ certificates: 'verify' })).toEqual([])
  })

  it.each([
    ['garbage', { garbage: true }, 0],
    ['a datagram full of scopes', { huge: true }, 1],
  ])('D2 finds other cameras while one answers %s', async (_what, faults, found) => {
    const [strange, right] = [await start(), await start()]
    Object.assign(strange.faults, faults)
    const devices = await find()
    expect(idsOf(devices)).toContain(`${right.service.url}-${right.uuid}`)
    expect(devices).toHaveLength(1 + found)
  })

  const [own] = machineAddresses().filter((each) => isIPv4(each) && !each.startsWith('127.'))
  it.each<[string, string, object]>([
    ['outside of the allowed networks', '127.88.0.1', { allowedNetworks: [`${IP}/32`] }],
    // Without a network, this machine has only addresses that are not allowed anyway.
    ['of this machine', own ?? '127.88.0.1', { allowedNetworks: [`${IP}/32`, '0.0.0.0/0'] }],
  ])('calls no address %s', async (_which, address, details) => {
    await using outside = await DeviceService.start({ address })
    const camera = await start({ xAddrs: [outside.url] })
    const inside = await start()
    expect(idsOf(await find(details))).toEqual([`${inside.service.url}-${inside.uuid}`])
    expect(camera.probes).toBeGreaterThan(0)
    expect(outside.requests).toEqual([])
  })

  it('logs once why all URLs of a camera are refused, without a password', async () => {
    const xAddrs = [`http://root:hunter2@${IP}/`, 'http://root:hunt/er2@x/', 'http://10.1.2.3/']
    await start({ xAddrs })
    const log = { ...silentLogger, info: vi.fn() }
    expect(await find({}, { log })).toEqual([])
    const lines = log.info.mock.calls.flatMap(([fields]) => ('reasons' in fields ? [fields] : []))
    const reasons = [
      `the URL of ${IP} has a user name, which the URL of a camera never has`,
      '"http://…@x/" is not the URL of a service',
      '10.1.2.3 is not in the allowed networks',
    ]
    expect(lines).toMatchObject([{ source: IP, reasons }])
    expect(JSON.stringify(log.info.mock.calls)).not.toMatch(/hunt|er2/)
  })

  it('D2 tells why it finds no camera', async () => {
    const session = open({ interfaces: ['none'] })
    await endRound()
    expect(await next(session)).toEqual([])
    expect(session.remarks).toEqual([
      'no interface for WS-Discovery Probes (UDP port 3702): none does not exist',
    ])
  })

  it.each<[string, DiscoveryFaults, reason: string, detail: RegExp]>([
    [
      'an answer to another Probe',
      { wrongRelatesTo: true },
      'answer not readable',
      /no Probe of this handler/,
    ],
    [
      'an answer of more than 16 KiB',
      { tail: ' '.repeat(16 * 1024) },
      'answer not readable',
      /more than 16384 bytes/,
    ],
    [
      'another answer',
      { rewrite: () => soapEnvelope('<tds:GetHostnameResponse/>') },
      'answer not readable',
      /GetHostnameResponse is no answer to a Probe/,
    ],
    [
      'a SOAP fault',
      { rewrite: () => soapFault('InvalidArgVal', 'no such type') },
      'SOAP fault',
      /InvalidArgVal: no such type/,
    ],
    [
      'an answer of a printer',
      { rewrite: (text) => text.replace(/(<d:Types>)[^<]*/, '$1dn:Printer dn:Scanner') },
      'device of another type',
      /its types are Printer, Scanner/,
    ],
    [
      'an answer without URLs',
      { rewrite: (text) => text.replace(/<d:XAddrs>.*<\/d:XAddrs>/, '') },
      'no URL announced',
      /undefined/,
    ],
  ])('D2 tells of %s, and not that there was no answer', async (_what, faults, reason, detail) => {
    const camera = await start()
    Object.assign(camera.faults, faults)
    const session = open({ uuids: null, probeAddresses: [IP], interfaces: ['none'] })
    await endRound()
    expect(await next(session)).toEqual([])
    expect(session.remarks).toEqual([])
    expect(session.leftOut).toHaveLength(1)
    const [device] = session.leftOut
    expect([IP, `${camera.uuid} at ${IP}`]).toContain(device?.id)
    expect([device?.reason, String(device?.detail)]).toEqual([
      reason,
      expect.stringMatching(detail),
    ])
  })

  it('D2 lists a camera that announces itself from a foreign address beside others', async () => {
    await start()
    await using _foreign = await DiscoveryResponder.open({
      address: '127.88.0.1',
      announcement: () => announcementAt('127.88.0.1'),
      faults: { delayMs: 0 },
    })
    const session = open({ allowedNetworks: [`${IP}/32`] })
    await endRound()
    expect(await next(session)).toHaveLength(1)
    expect(session.leftOut).toContainEqual({
      id: '127.88.0.1',
      reason: 'sender not allowed',
      detail: expect.any(String),
    })
  })

  it('D2 lists cameras above the limit of one address', async () => {
    const announcements = Array.from({ length: 40 }, (_, n) =>
      announcementAt(IP, { xAddrs: [`http://${IP}:${n + 1}/`] }),
    )
    const [first, ...furtherMatches] = announcements
    await using _recorder = await DiscoveryResponder.open({
      address: IP,
      announcement: () => first ?? expect.fail(),
      faults: { delayMs: 0, furtherMatches },
    })
    const session = open({ uuids: null, probeAddresses: [IP], interfaces: ['none'] })
    await endRound()
    await next(session)
    const limited = session.leftOut.filter(
      ({ reason }) => reason === 'too many cameras of one address',
    )
    expect(limited).toHaveLength(8)
  })

  it('D2 finds other cameras if an address cannot be probed', async () => {
    const camera = await start()
    // Such a socket may not send to the broadcast address.
    const details = { interfaces: ['none'], probeAddresses: ['255.255.255.255', IP] }
    expect(idsOf(await find(details))).toEqual([`${camera.service.url}-${camera.uuid}`])
  })

  it.each<[string, boolean, DiscoveryFaults]>([
    ['a Hello', true, {}],
    ['a Hello without a URL', false, {}],
    ['a Hello without a URL, if a ResolveMatch alone has it', false, { withoutUrls: true }],
    [
      'a Hello without a URL, if a ProbeMatch alone has it',
      false,
      { rewrite: (text) => (text.includes('ResolveMatches') ? '' : text) },
    ],
  ])('D2 offers a camera within a second of %s, also after failures', async (_what, ...how) => {
    const [hasUrl, faults] = how
    await using service = await DeviceService.start({ address: IP })
    const uuid = randomUUID()
    let xAddrs: string[] = []
    await using responder = await DiscoveryResponder.open({
      address: IP,
      announcement: () => announcementAt(IP, { uuid, xAddrs }),
      faults: { delayMs: 0, ...faults },
    })
    const hello = async () => {
      xAddrs = hasUrl ? [service.url] : []
      await responder.hello()
      xAddrs = [service.url]
    }
    // There is no other round: no Probe finds the camera.
    const log = { ...silentLogger, info: vi.fn() }
    const failures = () =>
      log.info.mock.calls.filter(([, message]) => message === 'camera query failed').length
    const session = open({ uuids: { items: [uuid] } }, { log })
    await endRound()
    expect(await next(session)).toEqual([])
    for (const round of [1, 2]) {
      service.misbehave('closed-connection')
      await hello()
      await eventually(() => expect(failures()).toBe(round))
      service.misbehave(undefined)
      const before = clock.monotonicMs()
      await hello()
      await next(session, (devices) => devices.length === 1)
      expect(clock.monotonicMs() - before).toBeLessThan(1000)
      await responder.bye()
      await next(session, (devices) => devices.length === 0)
    }
  })

  it.each<[string, SimulatedCameraOptions, password: string, requests: number]>([
    ['without a credential', {}, '', 4],
    ['with a credential', { credential }, 'secret', 5],
    ['with a wrong credential', { credential }, 'wrong', 5],
  ])('bounds the requests to a camera in a round: %s', async (_what, options, password, bound) => {
    const camera = await start(options)
    const properties = { username_default: 'admin', password_default: password }
    const session = open({ refreshSeconds: 60 }, { properties })
    const perRound: number[] = []
    for (let seconds = 0; seconds < 120; seconds += 10) {
      const before = camera.service.requests.length
      if (seconds === 0) await endRound()
      else await nextRound()
      if (seconds === 0) expect(await next(session)).toHaveLength(1)
      perRound.push(camera.service.requests.length - before)
    }
    expect(perRound[0]).toBe(bound)
    // No query follows before three quarters of refreshSeconds.
    expect(perRound.slice(1, 5)).toEqual([0, 0, 0, 0])
    expect(Math.max(...perRound)).toBeLessThanOrEqual(bound)
  })

  it.each([
    ['url', (camera: SimulatedCamera) => `${camera.service.url}-${camera.uuid}`],
    ['uuid', (camera: SimulatedCamera) => camera.uuid],
  ])('D2 follows a camera to its new address with deviceId: %s', async (deviceId, idOf) => {
    const camera = await start()
    const session = open({ deviceId })
    await endRound()
    expect(idsOf(await next(session))).toEqual([idOf(camera)])
    await camera.move('127.77.0.2')
    const devices = await nextRounds(
      session,
      (list) => list.length === 1 && list[0]?.properties?.ONVIF_DEVICE_IP_ADDRESS === '127.77.0.2',
    )
    expect(idsOf(devices)).toEqual([idOf(camera)])
  })
})
