import { randomUUID } from 'node:crypto'
import { promises as dns } from 'node:dns'
import { once, setMaxListeners } from 'node:events'
import { createServer } from 'node:net'
import {
  type Device,
  type DiscoveryHandler,
  DiscoveryProperties,
  InvalidDetailsError,
  type Logger,
  silentLogger,
  systemClock,
} from '@akrijs/sdk'
import {
  followDiscovery,
  leftOutSummary,
  openDiscovery,
  type ReportedDevices,
} from '@akrijs/sdk/host'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { alone } from '../../../test/support/alone.js'
import { eventually } from '../../../test/support/eventually.js'
import { issueAuthority } from '../../../webhook/src/certificates/x509.js'
import { createOnvifHandler } from './index.js'
import { DiscoveryResponder } from './testing/discovery-responder.js'
import {
  type AnnouncementText,
  DeviceService,
  type DiscoveryFaults,
  SimulatedCamera,
  type SimulatedCameraOptions,
} from './testing/index.js'
import { announcementAt } from './testing/internal/announcements.js'

// All tests of this machine share the loopback interface; each finds only its own cameras by their
// UUIDs.
alone()

const IP = '127.77.0.1'
const credential = { username: 'admin', password: 'secret' }

let cameras: SimulatedCamera[]
let stop: AbortController

beforeEach(() => {
  cameras = []
  stop = new AbortController()
  // One test has a dozen discoveries at once.
  setMaxListeners(0, stop.signal)
})

afterEach(async () => {
  stop.abort()
  await Promise.all(cameras.map((camera) => camera.close()))
})

async function start(options: SimulatedCameraOptions = {}): Promise<SimulatedCamera> {
  const camera = await SimulatedCamera.start({ address: IP, ...options })
  camera.faults.delayMs = 10
  cameras.push(camera)
  return camera
}

interface OpenOptions {
  readonly intervalMs?: number
  readonly handler?: DiscoveryHandler
  readonly log?: Logger
  readonly onLeftOut?: (leftOut: ReportedDevices) => void
}

function open(
  details: object,
  properties: Readonly<Record<string, string>> = {},
  {
    intervalMs = 1000,
    handler = createOnvifHandler({ intervalMs }),
    log = silentLogger,
    onLeftOut = () => {},
  }: OpenOptions = {},
) {
  return openDiscovery(handler, {
    details: JSON.stringify({
      interfaces: ['lo'],
      uuids: { items: cameras.map(({ uuid }) => uuid) },
      ...details,
    }),
    properties: DiscoveryProperties.fromTexts(properties),
    signal: stop.signal,
    log,
    onLeftOut,
  })
}

/** Lists with all reports. */
function follow(details: object) {
  return followDiscovery(createOnvifHandler({ intervalMs: 1000 }), {
    details: JSON.stringify(details),
    properties: new DiscoveryProperties(),
    signal: stop.signal,
    log: silentLogger,
  })
}

async function find(
  details: object = {},
  properties: Readonly<Record<string, string>> = {},
  options: OpenOptions = {},
): Promise<Device[]> {
  const { value } = await open(details, properties, options).next()
  return value ?? []
}

/** Waits for a list that satisfies; the discovery goes on. */
async function until<List>(
  lists: AsyncIterator<List>,
  satisfied: (list: List) => boolean,
): Promise<List> {
  for (;;) {
    const { done, value } = await lists.next()
    if (done) throw new Error('the discovery has ended')
    if (satisfied(value)) return value
  }
}

const idsOf = (devices: readonly Device[]) => devices.map(({ id }) => id)

function announcementOf({ uuid, service }: SimulatedCamera): AnnouncementText {
  return {
    uuid,
    xAddrs: [service.url],
    types: ['dn:NetworkVideoTransmitter'],
    scopes: [],
    metadataVersion: 1,
  }
}

async function unusedPort(): Promise<number> {
  const server = createServer().listen(0, IP)
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  return typeof address === 'object' && address !== null ? address.port : expect.fail('no port')
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
      const [device] = await find({}, properties)
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
      ['any address but its own', { ipAddresses: { items: [IP], action: 'Exclude' } }, false],
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
      ['another hardware address', { macAddresses: { items: ['02:00:00:00:ab:ce'] } }, false],
      ['one of its scopes', { scopes: { items: ['onvif://www.onvif.org/name/one'] } }, true],
      ['a part of its scope', { scopes: { items: ['onvif://www.onvif.org/name'] } }, false],
      [
        'any scope but one of its own',
        { scopes: { items: ['onvif://www.onvif.org/name/one'], action: 'Exclude' } },
        false,
      ],
      ['no scope, by Include of nothing', { scopes: { items: [] } }, false],
      ['any scope, by Exclude of nothing', { scopes: { items: [], action: 'Exclude' } }, true],
    ]
    // The discoveries also receive the Probes of each other: a busy machine may not read all of
    // them in a second.
    const unhurried = { discoveryTimeoutSeconds: 5 }
    const isFound = async (details: object) =>
      (await find({ ...unhurried, ...details })).length === 1
    const found = await Promise.all(
      filters.map(async ([what, details]) => [what, await isFound(details)]),
    )
    expect(found).toEqual(filters.map(([what, , wanted]) => [what, wanted]))
  })

  it('D2 tells why each camera that answered is not offered', async () => {
    const foreign = await start({ xAddrs: ['http://10.1.2.3/', 'rtsp://10.1.2.3/'] })
    const closed = await start({ xAddrs: [`http://${IP}:${await unusedPort()}/`] })
    const asking = await start({ credential, authentication: ['http-digest'], openOperations: [] })
    const page = await start()
    page.service.misbehave('html')
    const hung = await start()
    hung.service.misbehave('silence')
    const nowhere = await start({ xAddrs: [] })
    const scopes = await start({ identity: { scopes: ['onvif://other'] } })
    const shy = await start({ credential, authentication: ['username-token'] })
    const elsewhere = await start({ identity: { ipAddress: '10.9.9.9' } })
    const offered = await start()
    const uuids = await SimulatedCamera.start({ address: IP })
    uuids.faults.delayMs = 10
    await using _excluded = uuids
    let leftOut: ReportedDevices | undefined
    const details = {
      discoveryTimeoutSeconds: 3,
      ipAddresses: { items: [IP] },
      scopes: { items: ['onvif://other'], action: 'Exclude' },
    }
    const onLeftOut = (devices: ReportedDevices) => {
      leftOut = devices
    }
    const found = await find(details, {}, { onLeftOut })
    expect(found.map(({ properties }) => properties?.ONVIF_DEVICE_UUID)).toEqual([offered.uuid])
    const reasons = new Map(
      leftOut?.devices.map(({ id, reason, detail }) => [id.split(' ')[0], [reason, detail]]),
    )
    const expected: [SimulatedCamera, string, RegExp | undefined][] = [
      [foreign, 'address not allowed', /10\.1\.2\.3 is not in the allowed networks; .*rtsp/],
      [closed, 'connection refused', /ECONNREFUSED/],
      [asking, 'HTTP status 401', /GetSystemDateAndTime/],
      [page, 'no answer of a camera', /document type/],
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
    expect(leftOut && leftOutSummary(leftOut)).toContain('2 x filtered by ipAddresses')
  })

  it('forgets why a camera was not offered when it is offered', async () => {
    const camera = await start()
    camera.service.misbehave('html')
    const leftOut: string[][] = []
    const onLeftOut = ({ devices }: ReportedDevices) =>
      leftOut.push(devices.map(({ reason }) => reason))
    const lists = open({}, {}, { onLeftOut })
    expect((await lists.next()).value).toEqual([])
    camera.service.misbehave(undefined)
    await camera.hello()
    expect((await lists.next()).value).toHaveLength(1)
    expect(leftOut).toEqual([['no answer of a camera'], []])
  })

  it.each<[string, SimulatedCameraOptions, number]>([
    ['', {}, 1],
    [' and answers no call without it', { authentication: ['http-digest'], openOperations: [] }, 0],
  ])('logs once that a camera refuses the credential%s', async (_which, options, offered) => {
    await start({ credential, ...options })
    const log = { ...silentLogger, info: vi.fn() }
    const wrong = { username_default: 'admin', password_default: 'wrong' }
    expect(await find({}, wrong, { log })).toHaveLength(offered)
    const lines = log.info.mock.calls.filter(([, message]) => message === 'credential refused')
    expect(lines).toHaveLength(1)
    expect(JSON.stringify(log.info.mock.calls)).not.toContain('wrong')
  })

  it('reports each camera that refuses the credential, until it accepts it', async () => {
    const camera = await start({ credential })
    const open = await start()
    const wrong = { username_default: 'admin', password_default: 'wrong' }
    const read = async (properties: Readonly<Record<string, string>>) => {
      const lists = followDiscovery(createOnvifHandler({ intervalMs: 1000 }), {
        details: JSON.stringify({
          interfaces: ['lo'],
          uuids: { items: [camera.uuid, open.uuid] },
          deviceId: 'uuid',
        }),
        properties: DiscoveryProperties.fromTexts(properties),
        signal: stop.signal,
        log: silentLogger,
      })
      const { value } = await lists.next()
      return [value?.devices.length, value?.problems.devices]
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
    const list = open({ uuids: others, scopes: { items: ['onvif://nothing'] } })
    expect((await list.next()).value).toEqual([])
    expect(camera.probes).toBeGreaterThan(0)
    expect(camera.service.requests).toEqual([])
  })

  it('D2 does not call a known camera in rounds without changes', async () => {
    const [camera, ruledOut] = [await start(), await start()]
    const list = open({ macAddresses: { items: [camera.service.identity.macAddress] } })
    expect((await list.next()).value).toHaveLength(1)
    const before = [camera, ruledOut].map(({ service }) => service.requests.length)
    const probes = camera.probes
    await vi.waitUntil(() => camera.probes >= probes + 4, { timeout: 45_000 })
    expect([camera, ruledOut].map(({ service }) => service.requests.length)).toEqual(before)
  })

  it('offers a camera with several URLs once, at the first URL that answers', async () => {
    const dead = await unusedPort()
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

  it('reads all matches of an answer', async () => {
    const [speaker, silent] = [await start(), await start()]
    silent.faults.silent = true
    speaker.faults.furtherMatches = [announcementOf(silent)]
    expect(idsOf(await find()).sort()).toEqual(
      [speaker, silent].map(({ service, uuid }) => `${service.url}-${uuid}`).sort(),
    )
  })

  it('finds cameras with https; with verify only those with a signed certificate', async () => {
    const valid = {
      notBefore: new Date(Date.now() - 3_600_000),
      notAfter: new Date(Date.now() + 3_600_000),
    }
    const camera = await start({ tls: issueAuthority('camera', valid) })
    expect(idsOf(await find())).toEqual([
      `https://${IP}:${camera.service.port}/onvif/device_service-${camera.uuid}`,
    ])
    expect(await find({ certificates: 'verify' })).toEqual([])
  })

  it.each([
    ['garbage', { garbage: true }, 0],
    ['with an unknown RelatesTo', { wrongRelatesTo: true }, 0],
    ['a datagram full of scopes', { huge: true }, 1],
    ['without URLs', { withoutUrls: true }, 1],
    ['with zeros at the end', { tail: '\0\0\0\n\0' }, 1],
  ])('D2 finds other cameras while one answers %s', async (_what, faults, found) => {
    const [strange, right] = [await start(), await start()]
    Object.assign(strange.faults, faults)
    const devices = await find()
    expect(idsOf(devices)).toContain(`${right.service.url}-${right.uuid}`)
    expect(devices).toHaveLength(1 + found)
  })

  it('does not offer a device that does not answer as a camera', async () => {
    const [hung, right] = [await start(), await start()]
    hung.service.misbehave('html')
    expect(idsOf(await find())).toEqual([`${right.service.url}-${right.uuid}`])
  })

  it('calls no address outside of the allowed networks', async () => {
    await using outside = await DeviceService.start({ address: '127.88.0.1' })
    const camera = await start({ xAddrs: [outside.url] })
    const inside = await start()
    expect(idsOf(await find({ allowedNetworks: [`${IP}/32`] }))).toEqual([
      `${inside.service.url}-${inside.uuid}`,
    ])
    expect(camera.probes).toBeGreaterThan(0)
    expect(outside.requests).toEqual([])
  })

  it('logs once why all URLs of a camera are refused, without a password', async () => {
    const xAddrs = [`http://root:hunter2@${IP}/`, 'http://root:hunt/er2@x/', 'http://10.1.2.3/']
    await start({ xAddrs })
    const log = { ...silentLogger, info: vi.fn() }
    const lists = open({}, {}, { log })
    expect((await lists.next()).value).toEqual([])
    const lines = log.info.mock.calls.flatMap(([fields]) => ('reasons' in fields ? [fields] : []))
    const reasons = [
      `the URL of ${IP} has a user name, which the URL of a camera never has`,
      '"http://…@x/" is not the URL of a service',
      '10.1.2.3 is not in the allowed networks',
    ]
    expect(lines).toMatchObject([{ source: IP, reasons }])
    expect(JSON.stringify(log.info.mock.calls)).not.toMatch(/hunt|er2/)
  })

  it('resolves host names in turn, and each once for all Configurations', async () => {
    let [underWay, most] = [0, 0]
    const lookup = vi.spyOn(dns, 'lookup').mockImplementation(async () => {
      most = Math.max(most, ++underWay)
      await systemClock.sleep(50)
      underWay--
      return [{ address: IP, family: 4 }] as never
    })
    const named: SimulatedCamera[] = []
    for (const n of [1, 2, 3, 4, 5]) {
      const service = await start()
      named.push(
        await start({
          xAddrs: [`http://camera-${n}.example:${service.service.port}/onvif/device_service`],
        }),
      )
    }
    const uuids = { items: named.map(({ uuid }) => uuid) }
    const handler = createOnvifHandler({ intervalMs: 1000 })
    const found = await Promise.all([
      find({ uuids }, {}, { handler }),
      find({ uuids }, {}, { handler }),
    ])
    const names = lookup.mock.calls.map(([name]) => name).sort()
    lookup.mockRestore()
    expect(found.map((devices) => devices.length)).toEqual([5, 5])
    expect(most).toBe(1)
    expect(names).toEqual([1, 2, 3, 4, 5].map((n) => `camera-${n}.example`))
  })

  it.each<[string, object, readonly string[]]>([
    [
      'no interface',
      { interfaces: ['none'] },
      ['no interface for WS-Discovery Probes (UDP port 3702): none does not exist'],
    ],
    [
      'no answer',
      {
        uuids: null,
        interfaces: ['none'],
        probeAddresses: ['127.77.99.1'],
        discoveryTimeoutSeconds: 2,
      },
      ['no answer in 2 s to WS-Discovery Probes (UDP port 3702) to 127.77.99.1'],
    ],
  ])('D2 tells why it finds no camera: %s', async (_what, details, expected) => {
    const { value } = await follow(details).next()
    expect(value).toMatchObject({ devices: [], remarks: expected })
  })

  it.each<[string, DiscoveryFaults, RegExp]>([
    ['half of an answer', { garbage: true }, /not XML/],
    ['an answer to another Probe', { wrongRelatesTo: true }, /no Probe of this handler/],
    [
      'an answer without an endpoint reference',
      { rewrite: (text) => text.replace(/<a:EndpointReference>.*<\/a:EndpointReference>/, '') },
      /no usable endpoint reference/,
    ],
    ['an answer of more than 16 KiB', { tail: ' '.repeat(16 * 1024) }, /more than 16384 bytes/],
  ])('D2 tells that it cannot read %s, and not that there was none', async (_what, faults, why) => {
    const camera = await start()
    Object.assign(camera.faults, faults)
    const lists = follow({ probeAddresses: [IP], interfaces: ['none'] })
    const { value } = await lists.next()
    expect(value).toMatchObject({ devices: [], remarks: [] })
    expect(value?.leftOut.devices).toEqual([
      { id: IP, reason: 'answer not readable', detail: expect.stringMatching(why) },
    ])
  })

  it('D2 lists a camera that announces itself from a foreign address beside others', async () => {
    const camera = await start()
    const lists = follow({
      uuids: { items: [camera.uuid] },
      interfaces: ['lo'],
      allowedNetworks: [`${IP}/32`],
    })
    await using _foreign = await DiscoveryResponder.open({
      address: '127.88.0.1',
      announcement: () => announcementAt('127.88.0.1'),
      faults: { delayMs: 0 },
    })
    const found = await until(
      lists,
      ({ devices, leftOut }) => devices.length === 1 && leftOut.devices.length > 0,
    )
    expect(found.leftOut.devices).toEqual([
      { id: '127.88.0.1', reason: 'sender not allowed', detail: expect.any(String) },
    ])
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
    const lists = follow({ probeAddresses: [IP], interfaces: ['none'] })
    const { value } = await lists.next()
    expect(value?.leftOut.reasons.get('too many cameras of one address')).toBe(8)
  })

  it('finds cameras at probeAddresses without an interface to probe on', async () => {
    const camera = await start()
    const details = { interfaces: ['none'], probeAddresses: [IP] }
    expect(idsOf(await find(details))).toEqual([`${camera.service.url}-${camera.uuid}`])
  })

  it('D2 finds other cameras if an address cannot be probed', async () => {
    const camera = await start()
    // Such a socket may not send to the broadcast address.
    const details = { interfaces: ['none'], probeAddresses: ['255.255.255.255', IP] }
    expect(idsOf(await find(details))).toEqual([`${camera.service.url}-${camera.uuid}`])
  })

  it('offers a camera within a second of its Hello, and removes it at its Bye', async () => {
    const present = await start()
    const uuid = randomUUID()
    const lists = open({ uuids: { items: [present.uuid, uuid] } })
    expect((await lists.next()).value).toHaveLength(1)
    const camera = await start({ uuid })
    camera.faults.silent = true
    const took: number[] = []
    for (let round = 0; round < 3; round++) {
      const before = performance.now()
      await camera.hello()
      expect(await until(lists, (devices) => devices.length === 2)).toHaveLength(2)
      took.push(performance.now() - before)
      await camera.bye()
      expect(idsOf(await until(lists, (devices) => devices.length === 1))).toEqual([
        `${present.service.url}-${present.uuid}`,
      ])
    }
    // A busy machine may be late in some rounds.
    expect(Math.min(...took)).toBeLessThan(1000)
  })

  it.each<[string, boolean, DiscoveryFaults]>([
    ['a Hello', true, {}],
    ['a Hello without a URL', false, {}],
    ['a Hello without a URL, if a ResolveMatch alone has it', false, { withoutUrls: true }],
  ])('D2 offers a camera within a second of %s, also after failures', async (_what, ...how) => {
    const [hasUrl, faults] = how
    await using service = await DeviceService.start({ address: IP })
    const uuid = randomUUID()
    let xAddrs: string[] = []
    await using responder = await DiscoveryResponder.open({
      address: IP,
      announcement: () => announcementAt(IP, { uuid, xAddrs }),
      faults: { delayMs: 10, ...faults },
    })
    const hello = async () => {
      xAddrs = hasUrl ? [service.url] : []
      await responder.hello()
      xAddrs = [service.url]
    }
    // The rounds are so far apart that no Probe finds the camera.
    const log = { ...silentLogger, info: vi.fn() }
    const failures = () =>
      log.info.mock.calls.filter(([, message]) => message === 'camera query failed').length
    const lists = open({ uuids: { items: [uuid] } }, {}, { intervalMs: 86_400_000, log })
    expect((await lists.next()).value).toEqual([])
    const took: number[] = []
    for (const round of [1, 2]) {
      service.misbehave('closed-connection')
      await hello()
      await eventually(() => expect(failures()).toBe(round))
      service.misbehave(undefined)
      const before = performance.now()
      await hello()
      expect(await until(lists, (devices) => devices.length === 1)).toHaveLength(1)
      took.push(performance.now() - before)
      await responder.bye()
      expect(await until(lists, (devices) => devices.length === 0)).toEqual([])
    }
    // A busy machine may be late once.
    expect(Math.min(...took)).toBeLessThan(1000)
  })

  it('D2 replaces a camera at once that restarts with another UUID', async () => {
    const uuids = [randomUUID(), randomUUID()]
    const [first, second] = uuids
    const camera = await start({ ...(first && { uuid: first }) })
    const lists = open({ uuids: { items: uuids } }, {}, { intervalMs: 60_000 })
    const url = camera.service.url
    expect(idsOf((await lists.next()).value ?? [])).toEqual([`${url}-${first}`])
    const { port } = camera.service
    await camera.close()
    const restarted = await start({ port, ...(second && { uuid: second }) })
    await restarted.hello()
    expect(idsOf((await lists.next()).value ?? [])).toEqual([`${url}-${second}`])
  })

  it('probes a camera directly whose Hello has no URL', async () => {
    const camera = await start()
    const uuid = randomUUID()
    // The rounds are so far apart that no Probe to the group finds the camera.
    const lists = open({ uuids: { items: [uuid] } }, {}, { intervalMs: 60_000 })
    expect((await lists.next()).value).toEqual([])
    let xAddrs: string[] = []
    await using shy = await DiscoveryResponder.open({
      address: '127.77.0.5',
      announcement: () => ({ ...announcementOf(camera), uuid, xAddrs }),
      faults: { delayMs: 10 },
    })
    await shy.hello()
    xAddrs = [camera.service.url]
    expect(idsOf((await lists.next()).value ?? [])).toEqual([`${camera.service.url}-${uuid}`])
  })

  it('offers a camera again after a forged Bye from its own address', async () => {
    const camera = await start()
    const lists = open({})
    expect((await lists.next()).value).toHaveLength(1)
    await camera.bye()
    expect(await until(lists, (devices) => devices.length === 0)).toEqual([])
    expect(await until(lists, (devices) => devices.length === 1)).toHaveLength(1)
  })

  it('keeps a camera that answers after a Bye from another address', async () => {
    const camera = await start()
    await using forger = await DiscoveryResponder.open({
      address: '127.77.0.66',
      announcement: () => announcementOf(camera),
      faults: { silent: true },
    })
    const lists = open({})
    expect((await lists.next()).value).toHaveLength(1)
    await forger.bye()
    const probes = camera.probes
    await vi.waitUntil(() => camera.probes >= probes + 2, { timeout: 45_000 })
    const next = await Promise.race([
      lists.next(),
      new Promise((resolve) => setImmediate(() => resolve('nothing'))),
    ])
    expect(next).toBe('nothing')
  })

  it('keeps a camera that misses rounds, and removes it after three', async () => {
    const camera = await start()
    const lists = open({})
    expect((await lists.next()).value).toHaveLength(1)
    camera.faults.silent = true
    const before = camera.probes
    expect(await until(lists, (devices) => devices.length === 0)).toEqual([])
    // A round has two Probes.
    expect(camera.probes - before).toBeGreaterThanOrEqual(6)
  })

  it.each([
    ['url', (camera: SimulatedCamera) => `${camera.service.url}-${camera.uuid}`],
    ['uuid', (camera: SimulatedCamera) => camera.uuid],
  ])('D2 follows a camera to its new address with deviceId: %s', async (deviceId, idOf) => {
    const camera = await start()
    const lists = open({ deviceId })
    expect(idsOf((await lists.next()).value ?? [])).toEqual([idOf(camera)])
    await camera.move('127.77.0.2')
    const devices = await until(
      lists,
      (list) => list.length === 1 && list[0]?.properties?.ONVIF_DEVICE_IP_ADDRESS === '127.77.0.2',
    )
    expect(idsOf(devices)).toEqual([idOf(camera)])
  })

  it('finds real cameras while one address announces hundreds of forged cameras', async () => {
    for (const _ of [1, 2, 3]) await start()
    const dead = await unusedPort()
    const forged = (): AnnouncementText => ({
      ...announcementOf(cameras[0] ?? expect.fail()),
      uuid: randomUUID(),
      xAddrs: [`http://${IP}:${dead}/`],
    })
    const flood: DiscoveryFaults = {
      delayMs: 0,
      furtherMatches: Array.from({ length: 40 }, forged),
    }
    const forgers = await Promise.all(
      Array.from({ length: 10 }, () =>
        DiscoveryResponder.open({ address: '127.77.0.66', announcement: forged, faults: flood }),
      ),
    )
    const found = await find({ uuids: { items: [], action: 'Exclude' } })
    for (const forger of forgers) forger.close()
    expect(idsOf(found)).toEqual(
      expect.arrayContaining(cameras.map(({ service, uuid }) => `${service.url}-${uuid}`)),
    )
  })

  it.each([
    ['an unknown field', { ipAddress: { items: [] } }, /ipAddress/],
    ['a filter without a list', { uuids: { items: 'x' } }, /uuids\.items/],
    ['an action in lower case', { uuids: { items: [], action: 'include' } }, /uuids\.action/],
    ['a text as a number', { discoveryTimeoutSeconds: '1' }, /discoveryTimeoutSeconds/],
    [
      'an invalid network',
      { allowedNetworks: ['10.0.0.0/33'] },
      /allowedNetworks\[0\]: write a network/,
    ],
    [
      'a host name instead of an address',
      { probeAddresses: ['camera.example'] },
      /probeAddresses\[0\]: write an address/,
    ],
    ['an invalid interface', { interfaces: ['a/b'] }, /interfaces\[0\]/],
    [
      'an invalid authority',
      { certificateAuthorities: 'mine' },
      /certificateAuthorities: write certificates in PEM/,
    ],
  ])('refuses %s', async (_what, details, message) => {
    const refused = find(details)
    await expect(refused).rejects.toThrow(InvalidDetailsError)
    await expect(refused).rejects.toThrow(message)
  })
})
