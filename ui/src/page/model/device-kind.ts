import { texts } from './device-title.js'

export type DeviceKind =
  | 'camera'
  | 'controller'
  | 'device'
  | 'disk'
  | 'input'
  | 'memory'
  | 'network'
  | 'printer'
  | 'serial'
  | 'service'
  | 'speaker'
  | 'television'
  | 'usb'

/** The kind of a device in words, for people who do not see its icon. */
export const KIND_WORDS: Readonly<Record<DeviceKind, string>> = {
  camera: 'camera',
  controller: 'industrial device',
  device: 'device',
  disk: 'disk',
  input: 'input device',
  memory: 'memory device',
  network: 'network link',
  printer: 'printer',
  serial: 'serial port',
  service: 'network service',
  speaker: 'speaker',
  television: 'television',
  usb: 'USB device',
}

/** The first pattern that a text of the device matches decides. */
const PATTERNS: readonly (readonly [pattern: RegExp, kind: DeviceKind])[] = [
  [/^\/dev\/video|\/video4linux\//, 'camera'],
  [/^\/dev\/tty(USB|ACM)|\/tty\/tty(USB|ACM)/, 'serial'],
  [/\/virtual\/mem\//, 'memory'],
  [/\/block\//, 'disk'],
  [/\/net\//, 'network'],
  [/^\/dev\/input|\/input\//, 'input'],
  [/\/usb\d/, 'usb'],
  [/_ipps?\._tcp|_printer\._tcp|:Printer:/i, 'printer'],
  [/MediaRenderer|_airplay\._tcp|_googlecast\._tcp/i, 'television'],
  [/_raop\._tcp|_spotify|_sonos|ZonePlayer/i, 'speaker'],
]
const CLUES = [
  'UDEV_DEVPATH',
  'UDEV_DEVNODE',
  'MDNS_SERVICE_TYPE',
  'SSDP_DEVICE_TYPE',
  'SSDP_TARGETS',
]
const OF_HANDLERS: Readonly<Record<string, DeviceKind>> = {
  mdns: 'service',
  modbus: 'controller',
  onvif: 'camera',
  opcua: 'controller',
  ssdp: 'service',
  usb: 'usb',
}

/** @param handler the name of the handler that finds the device; undefined if it is unknown */
export function deviceKind(
  properties: Readonly<Record<string, string>>,
  handler: string | undefined,
): DeviceKind {
  const clues = texts(properties, CLUES)
  const found = PATTERNS.find(([pattern]) => clues.some((clue) => pattern.test(clue)))
  if (found !== undefined) return found[1]
  return (Object.hasOwn(OF_HANDLERS, handler ?? '') && OF_HANDLERS[handler ?? '']) || 'device'
}
