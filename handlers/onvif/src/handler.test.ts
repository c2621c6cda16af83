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
import { openDiscovery } from '@akrijs/sdk/host'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { alone } from '../../../test/support/alone.js'
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

// On the loopback interface, where other tests have their cameras too: so each asks for its own only.
alone()

const IP = '127.77.0.1'
const credential = { username: 'admin', password: 'secret' }

let cameras: SimulatedCamera[]
let stop: AbortController

beforeEach(() => {
  cameras = []
  stop = new AbortController()
  // One test asks a dozen times at once.
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
}

function open(
  details: object,
  properties: Readonly<Record<string, string>> = {},
  {
    intervalMs = 1000,
    handler = createOnvifHandler({ intervalMs }),
    log = silentLogger,
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

/** The first list that satisfies; the discovery goes on. */
async function until(
  lists: AsyncIterator<Device[]>,
  satisfied: (devices: readonly Device[]) => boolean,
): Promise<Device[]> {
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
  it('offers a camera with the id and the properties of the existing system, and what else it tells', async () => {
    const camera = await start()
    expect(await find()).toEqual([
      {
        id: `${camera.service.url}-${camera.uuid}`,
        properties: {
          ONVIF_DEVICE_SERVICE_URL: camera.service.url,
          ONVIF_DEVICE_UUID: camera.uuid,
          ONVIF_DEVICE_IP_ADDRESS: IP,
          ONVIF_DEVICE_MAC_ADDRESS: '02:00:00:00:00:01',
          ONVIF_DEVICE_MANUFACTURER: 'Akri',
          ONVIF_DEVICE_MODEL: 'Simulated camera',
          ONVIF_DEVICE_FIRMWARE_VERSION: '1.10',
          ONVIF_DEVICE_SERIAL_NUMBER: '00000000000000000001',
          ONVIF_DEVICE_HARDWARE_ID: 'simulated',
          ONVIF_DEVICE_SCOPES:
            'onvif://www.onvif.org/name/simulated onvif://www.onvif.org/location/laboratory onvif://www.onvif.org/hardware/simulated',
          ONVIF_DEVICE_AUTHENTICATION: 'none',
        },
        mounts: [],
        deviceSpecs: [],
      },
    ])
  })

  it('offers a camera by its UUID alone where that is asked for', async () => {
    const camera = await start()
    expect(idsOf(await find({ deviceId: 'uuid' }))).toEqual([camera.uuid])
  })

  it('tells of media profiles where that is asked for', async () => {
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

  it('offers a camera that wants a credential, and one that refuses ours, and says so', async () => {
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
    ).toEqual(['accepted', '00000000000000000001'])
  })

  it('finds a camera or not by its address, hardware address and scopes', async () => {
    const scopes = ['onvif://www.onvif.org/name/one', 'onvif://www.onvif.org/x']
    await start({ identity: { macAddress: '02:00:00:00:ab:cd', scopes } })
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
    // All at once hear each other's Probes too: that may be more than a busy machine reads in a second.
    const unhurried = { discoveryTimeoutSeconds: 5 }
    const isFound = async (details: object) =>
      (await find({ ...unhurried, ...details })).length === 1
    const found = await Promise.all(
      filters.map(async ([what, details]) => [what, await isFound(details)]),
    )
    expect(found).toEqual(filters.map(([what, , wanted]) => [what, wanted]))
  })

  it('leaves out a camera whose address nobody knows where a filter asks for it, also one by Exclude', async () => {
    await start({ credential })
    expect(await find({ ipAddresses: { items: ['10.0.0.1'], action: 'Exclude' } })).toEqual([])
    expect(await find({ ipAddresses: { items: [], action: 'Exclude' } })).toHaveLength(1)
  })

  it('D2 never asks a camera that UUID or scopes rule out', async () => {
    const camera = await start()
    const others = { items: [camera.uuid.toUpperCase()], action: 'Exclude' }
    const list = open({ uuids: others, scopes: { items: ['onvif://nothing'] } })
    expect((await list.next()).value).toEqual([])
    expect(camera.probes).toBeGreaterThan(0)
    expect(camera.service.requests).toEqual([])
  })

  it('D2 asks a known camera nothing in rounds in which nothing changes, also one that a filter rules out', async () => {
    const [camera, ruledOut] = [
      await start(),
      await start({ identity: { macAddress: '02:00:00:00:00:99' } }),
    ]
    const list = open({ macAddresses: { items: ['02:00:00:00:00:01'] } })
    expect((await list.next()).value).toHaveLength(1)
    const before = [camera, ruledOut].map(({ service }) => service.requests.length)
    const probes = camera.probes
    await vi.waitUntil(() => camera.probes >= probes + 4, { timeout: 45_000 })
    expect([camera, ruledOut].map(({ service }) => service.requests.length)).toEqual(before)
  })

  it('offers a camera with several service URLs once, at the first one that answers', async () => {
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

  it('takes every match of a reply', async () => {
    const [one, other] = [await start(), await start()]
    other.faults.silent = true
    one.faults.furtherMatches = [announcementOf(other)]
    expect(idsOf(await find()).sort()).toEqual(
      [one, other].map(({ service, uuid }) => `${service.url}-${uuid}`).sort(),
    )
  })

  it('finds cameras with https, and not those whose certificate nobody has signed where certificates are verified', async () => {
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
    ['an answer to nobody', { wrongRelatesTo: true }, 0],
    ['a datagram full of scopes', { huge: true }, 1],
  ])('D2 goes on where a camera answers %s', async (_what, faults, found) => {
    const [strange, right] = [await start(), await start()]
    Object.assign(strange.faults, faults)
    const devices = await find()
    expect(idsOf(devices)).toContain(`${right.service.url}-${right.uuid}`)
    expect(devices).toHaveLength(1 + found)
  })

  it('offers nothing that does not answer as a camera', async () => {
    const [hung, right] = [await start(), await start()]
    hung.service.misbehave('html')
    expect(idsOf(await find())).toEqual([`${right.service.url}-${right.uuid}`])
  })

  it('asks nobody outside of the networks that it may call', async () => {
    await using outside = await DeviceService.start({ address: '127.88.0.1' })
    const camera = await start({ xAddrs: [outside.url] })
    const inside = await start()
    expect(idsOf(await find({ allowedNetworks: [`${IP}/32`] }))).toEqual([
      `${inside.service.url}-${inside.uuid}`,
    ])
    expect(camera.probes).toBeGreaterThan(0)
    expect(outside.requests).toEqual([])
  })

  it('tells once why nothing of an announcement may be asked, without the password that is in it', async () => {
    const xAddrs = [`http://root:hunter2@${IP}/`, 'http://root:hunt/er2@x/', 'http://10.1.2.3/']
    await start({ xAddrs })
    const log = { ...silentLogger, info: vi.fn() }
    const lists = open({}, {}, { log })
    expect((await lists.next()).value).toEqual([])
    const told = log.info.mock.calls.flatMap(([fields]) => ('reasons' in fields ? [fields] : []))
    const reasons = [
      `the URL of ${IP} has a user name, which the URL of a camera never has`,
      '"http://…@x/" is not the URL of a service',
      '10.1.2.3 is not in the allowed networks',
    ]
    expect(told).toMatchObject([{ source: IP, reasons }])
    expect(JSON.stringify(log.info.mock.calls)).not.toMatch(/hunt|er2/)
  })

  it('resolves the names of cameras one after the other, also for several Configurations, and each once', async () => {
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

  it('finds cameras at addresses that it is told of, without an interface to probe on', async () => {
    const camera = await start()
    const details = { interfaces: ['none'], probeAddresses: [IP] }
    expect(idsOf(await find(details))).toEqual([`${camera.service.url}-${camera.uuid}`])
  })

  it('D2 goes on where an address cannot be asked', async () => {
    const camera = await start()
    // To all hosts of the network nothing may be sent from such a socket.
    const details = { interfaces: ['none'], probeAddresses: ['255.255.255.255', IP] }
    expect(idsOf(await find(details))).toEqual([`${camera.service.url}-${camera.uuid}`])
  })

  it('offers a camera within a second of its Hello, and takes it away at its Bye', async () => {
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
    // A machine that is busy with other tests may be late now and then.
    expect(Math.min(...took)).toBeLessThan(1000)
  })

  it('asks a camera directly that says Hello without saying where its service is', async () => {
    const camera = await start()
    const uuid = randomUUID()
    // Rounds so far apart that no Probe to the group can find it.
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

  it('offers a camera again that somebody took away by forging its very address', async () => {
    const camera = await start()
    const lists = open({})
    expect((await lists.next()).value).toHaveLength(1)
    await camera.bye()
    expect(await until(lists, (devices) => devices.length === 0)).toEqual([])
    expect(await until(lists, (devices) => devices.length === 1)).toHaveLength(1)
  })

  it('keeps a camera that answers although somebody else says goodbye in its name', async () => {
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

  it('keeps a camera that misses rounds, and lets it go when it has missed three', async () => {
    const camera = await start()
    const lists = open({})
    expect((await lists.next()).value).toHaveLength(1)
    camera.faults.silent = true
    const before = camera.probes
    expect(await until(lists, (devices) => devices.length === 0)).toEqual([])
    // Two Probes of a round.
    expect(camera.probes - before).toBeGreaterThanOrEqual(6)
  })

  it.each([
    ['url', (camera: SimulatedCamera) => `${camera.service.url}-${camera.uuid}`],
    ['uuid', (camera: SimulatedCamera) => camera.uuid],
  ])('D2 follows a camera to its new address; its id is made of the %s', async (deviceId, idOf) => {
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

  it('finds real cameras while one address answers with hundreds of forged ones', async () => {
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
    ['a field that does not exist', { ipAddress: { items: [] } }, /ipAddress/],
    ['a filter without items', { uuids: {} }, /uuids\.items/],
    ['an action in lower case', { uuids: { items: [], action: 'include' } }, /uuids\.action/],
    ['no time to wait', { discoveryTimeoutSeconds: 0 }, /discoveryTimeoutSeconds/],
    [
      'a network that is none',
      { allowedNetworks: ['10.0.0.0/33'] },
      /allowedNetworks\[0\]: write a network/,
    ],
    [
      'a name in place of an address',
      { probeAddresses: ['camera.example'] },
      /probeAddresses\[0\]: write an address/,
    ],
    ['an interface that is none', { interfaces: ['a/b'] }, /interfaces\[0\]/],
    [
      'an authority that is none',
      { certificateAuthorities: 'mine' },
      /certificateAuthorities: write certificates in PEM/,
    ],
  ])('refuses %s', async (_what, details, message) => {
    const refused = find(details)
    await expect(refused).rejects.toThrow(InvalidDetailsError)
    await expect(refused).rejects.toThrow(message)
  })
})
