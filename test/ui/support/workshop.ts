import type { ConfigurationStatus } from '@akrijs/api'
import { eventsKey, handlerKey } from '@akrijs/ui'
import {
  configurationNamed,
  deviceNamed,
  MemorySource,
} from '../../../ui/src/testing/memory-source.js'

const SINCE = '2026-11-01T08:00:00Z'

function ready(
  devices: number,
  slots: ConfigurationStatus['slots'],
  reason = 'Ready',
  message = '',
): Partial<ConfigurationStatus> {
  const status = reason === 'InvalidDetails' ? 'False' : 'True'
  const condition = { type: 'Ready', status, reason, message, lastTransitionTime: SINCE } as const
  return { devices, slots, conditions: [condition] }
}

/** The devices of a workshop, with a problem, and with Configurations that find nothing. */
export function workshop(): MemorySource {
  const source = new MemorySource()
  const configurations = [
    configurationNamed('ip-cameras', 'onvif', ready(4, { total: 8, claimed: 5 })),
    configurationNamed('opcua-servers', 'opcua', ready(2, { total: 4, claimed: 2 })),
    configurationNamed('usb-devices', 'udev', ready(3, { total: 3, claimed: 1 })),
    configurationNamed('network-services', 'mdns', ready(3, { total: 43, claimed: 18 })),
    configurationNamed(
      'upnp-devices',
      'ssdp',
      ready(
        0,
        { total: 0, claimed: 0 },
        'NoDevices',
        '0 devices; no answer of upnp:rootdevice on eth0 (10.77.0.5)',
      ),
    ),
    configurationNamed(
      'serial-ports',
      'udev',
      ready(
        0,
        { total: 0, claimed: 0 },
        'InvalidDetails',
        'udevRules[0]: line 1, column 18: write == for a comparison',
      ),
    ),
  ]
  for (const configuration of configurations) source.putObject(configuration)
  for (const [name, folder] of Object.entries(PACKAGES))
    source.put(handlerKey(name), {
      kind: 'handler',
      name,
      package: `@akrijs/handler-${folder} 2.4.0`,
      place: 'in the agent',
      isConnected: true,
    })
  for (const [index, [make, model]] of CAMERAS.entries()) camera(source, index, make, model)
  for (const [index, name] of ['Press 4', 'Oven 2'].entries()) {
    const url = `opc.tcp://10.77.1.${20 + index}:4840/`
    const properties = { OPCUA_DISCOVERY_URL: url, OPCUA_APPLICATION_NAME: name }
    const object = deviceNamed(`opcua-servers-7c10e${index}`, properties, {
      configuration: 'opcua-servers',
      used: 1,
      status: { brokerInfo: { temperature: index === 0 ? '61.4 °C' : '218.9 °C' } },
    })
    source.putObject(object, { phase: 'running', pid: 5120 + index })
  }
  for (const [index, [path, node]] of USB.entries())
    source.putObject(
      deviceNamed(
        `usb-devices-90ab1${index}`,
        { UDEV_DEVPATH: `/devices/pci0000:00/usb1/${path}`, UDEV_DEVNODE: node },
        { configuration: 'usb-devices', capacity: 1, used: index === 0 ? 1 : 0 },
      ),
    )
  for (const [index, [name, type, capacity, used]] of SERVICES.entries())
    source.putObject(
      deviceNamed(
        `network-services-3fe0${index}1`,
        {
          MDNS_SERVICE_NAME: name,
          MDNS_SERVICE_TYPE: type,
          MDNS_HOST: `host-${index}.local`,
          MDNS_ADDRESS: `10.77.2.${40 + index}`,
        },
        { configuration: 'network-services', capacity, used },
      ),
    )
  return source
}

const PACKAGES = {
  onvif: 'onvif',
  opcua: 'opcua',
  udev: 'udev',
  mdns: 'mdns',
  ssdp: 'ssdp',
  debugEcho: 'debug-echo',
}
const CAMERAS = [
  ['Acme', 'Dome 40'],
  ['Acme', 'Dome 40'],
  ['Nordwall', 'Gate 2'],
  ['Hikari', 'Yard Pro'],
] as const
const USB = [
  ['1-1', '/dev/video0'],
  ['1-2/1-2:1.0/ttyUSB0/tty/ttyUSB0', '/dev/ttyUSB0'],
  ['1-4', '/dev/bus/usb/001/007'],
] as const
const SERVICES = [
  ['Hall 1', '_ipp._tcp', 40, 17],
  ['Meeting room', '_googlecast._tcp', 2, 1],
  ['Weather station', '_http._tcp', 1, 0],
] as const

function camera(source: MemorySource, index: number, make: string, model: string): void {
  const name = `ip-cameras-4d2f0${index}`
  const address = `10.77.0.${10 + index}`
  const object = deviceNamed(
    name,
    {
      ONVIF_DEVICE_SERVICE_URL: `http://${address}/onvif/device_service`,
      ONVIF_DEVICE_UUID: `3fa1fe68-b915-4053-a3e1-ac15a21f5f9${index}`,
      ONVIF_DEVICE_IP_ADDRESS: address,
      ONVIF_DEVICE_MANUFACTURER: make,
      ONVIF_DEVICE_MODEL: model,
      ONVIF_DEVICE_SERIAL_NUMBER: `SN-20${index}7`,
      ONVIF_DEVICE_FIRMWARE_VERSION: '5.7.3',
      ONVIF_DEVICE_AUTHENTICATION: 'accepted',
    },
    {
      configuration: 'ip-cameras',
      used: index === 3 ? 2 : 1,
      status: { brokerInfo: { pictures: `${1204 + index * 17}`, page: `http://${address}:8080/` } },
    },
  )
  const failed = { phase: 'waiting', reason: 'no answer of the camera for 30 s' }
  source.putObject(object, index === 2 ? failed : { phase: 'running', pid: 4711 + index })
  const event = { type: 'Normal', reason: 'DeviceFound', count: 1 } as const
  const time = { firstTimestamp: SINCE, lastTimestamp: SINCE }
  const message = 'node-a sees the device'
  source.put(eventsKey({ kind: 'Instance', key: `plant/${name}` }), {
    kind: 'events',
    events: [{ ...event, ...time, message }],
  })
}
