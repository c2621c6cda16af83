import { type Device, DiscoveryProperties, InvalidDetailsError, silentLogger } from '@akrijs/sdk'
import { openDiscovery } from '@akrijs/sdk/host'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createOnvifHandler } from './index.js'
import { SimulatedCamera, type SimulatedCameraOptions } from './testing/index.js'

// On the loopback interface, where other tests have their cameras too: so each asks for its own only.

const IP = '127.77.0.1'
const credential = { username: 'admin', password: 'secret' }

let cameras: SimulatedCamera[]
let stop: AbortController

beforeEach(() => {
  cameras = []
  stop = new AbortController()
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

function open(details: object, properties: Readonly<Record<string, string>> = {}) {
  return openDiscovery(createOnvifHandler({ intervalMs: 1000 }), {
    details: JSON.stringify({
      interfaces: ['lo'],
      uuids: { items: cameras.map(({ uuid }) => uuid) },
      ...details,
    }),
    properties: DiscoveryProperties.fromTexts(properties),
    signal: stop.signal,
    log: silentLogger,
  })
}

async function find(details: object = {}, properties: Readonly<Record<string, string>> = {}): Promise<Device[]> {
  const { value } = await open(details, properties).next()
  return value ?? []
}

/** The first list that satisfies. */
async function until(lists: AsyncIterable<Device[]>, satisfied: (devices: readonly Device[]) => boolean): Promise<Device[]> {
  for await (const devices of lists) if (satisfied(devices)) return devices
  throw new Error('the discovery has ended')
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
})
