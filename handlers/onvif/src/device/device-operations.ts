import { isIPv4 } from 'node:net'
import { plainAddress } from '@akrijs/sdk/network'
import { cameraText } from '../xml/camera-text.js'
import type { XmlElement } from '../xml/xml.js'
import type { SoapCall } from './soap.js'

// The operations of the device service, and functions that read their answers.

const DEVICE = 'http://www.onvif.org/ver10/device/wsdl'
const operation = (name: string, body = ''): SoapCall => ({
  namespace: DEVICE,
  operation: name,
  body,
})

export const GET_SYSTEM_DATE_AND_TIME = operation('GetSystemDateAndTime')
export const GET_DEVICE_INFORMATION = operation('GetDeviceInformation')
export const GET_NETWORK_INTERFACES = operation('GetNetworkInterfaces')
export const GET_SCOPES = operation('GetScopes')
export const GET_SERVICES = operation('GetServices', '<IncludeCapability>false</IncludeCapability>')
/** Devices older than ONVIF 2.1 have it instead of GetServices. */
export const GET_CAPABILITIES = operation('GetCapabilities', '<Category>All</Category>')

/** The limit of scopes of one camera. */
const MAX_SCOPES = 128

export interface DeviceInformation {
  readonly manufacturer?: string | undefined
  readonly model?: string | undefined
  readonly firmware?: string | undefined
  readonly serialNumber?: string | undefined
  readonly hardwareId?: string | undefined
}

/** Milliseconds since the epoch; undefined if the answer has no valid time. */
export function readTime(response: XmlElement): number | undefined {
  // Some cameras tell the local time only, and compare tokens with it.
  const times = ['UTCDateTime', 'LocalDateTime'].map((name) =>
    timeOf(response.find('SystemDateAndTime', name)),
  )
  return times.find((time) => time !== undefined)
}

function timeOf(element: XmlElement | undefined): number | undefined {
  const numbers = (part: string, ...names: readonly string[]) =>
    names.map((name) => {
      const text = element?.textOf(part, name) ?? ''
      return /^\d{1,4}$/.test(text) ? Number(text) : Number.NaN
    })
  const [year = Number.NaN, month = Number.NaN, day] = numbers('Date', 'Year', 'Month', 'Day')
  const [hour, minute, second] = numbers('Time', 'Hour', 'Minute', 'Second')
  const time = Date.UTC(year, month - 1, day, hour, minute, second)
  // Date.UTC takes a year below 100 as a year of the last century.
  return year >= 1970 && !Number.isNaN(time) ? time : undefined
}

export function readInformation(response: XmlElement): DeviceInformation {
  const text = (name: string) => cameraText(response.textOf(name) ?? '') || undefined
  return {
    manufacturer: text('Manufacturer'),
    model: text('Model'),
    firmware: text('FirmwareVersion'),
    serialNumber: text('SerialNumber'),
    hardwareId: text('HardwareId'),
  }
}

interface NetworkAddresses {
  readonly ipAddress?: string | undefined
  readonly macAddress?: string | undefined
}

/**
 * The IPv4 address and the hardware address of the interface in use: that with the called address,
 * else the first enabled interface with an address. Cameras with a wireless interface often report
 * the wired interface first, with an address and a hardware address that all of their kind share.
 * @param calledAddress the address at which the camera answered
 */
export function readNetworkInterfaces(
  response: XmlElement,
  calledAddress: string,
): NetworkAddresses {
  const called = plainAddress(calledAddress)
  const interfaces = response.all('NetworkInterfaces').map((element) => ({
    isEnabled: isOn(element, 'Enabled'),
    macAddress: cameraText(element.textOf('Info', 'HwAddress') ?? '', 64) || undefined,
    ipAddresses: isOn(element, 'IPv4', 'Enabled') ? usableIpv4(element) : [],
    all: ['IPv4', 'IPv6'].flatMap((family) => addressesOf(element.find(family, 'Config'))),
  }))
  const matching = interfaces.filter(({ all }) => all.some((each) => plainAddress(each) === called))
  // An interface that is off can have been given the same address.
  const inUse =
    matching.find(({ isEnabled, ipAddresses }) => isEnabled && ipAddresses[0] === called) ??
    matching.find(({ isEnabled }) => isEnabled) ??
    matching[0]
  if (inUse !== undefined) {
    const { macAddress, ipAddresses } = inUse
    return { ipAddress: isIPv4(called) ? called : ipAddresses[0], macAddress }
  }
  const enabled = interfaces.filter(({ isEnabled }) => isEnabled)
  const withAddress = enabled.filter(({ ipAddresses }) => ipAddresses.length > 0)
  const { ipAddresses: [ipAddress] = [], macAddress } =
    withAddress.find(({ ipAddresses: [first = ''] }) => !first.startsWith(IPV4_LINK_LOCAL)) ??
    withAddress[0] ??
    enabled.find(({ macAddress }) => macAddress !== undefined) ??
    {}
  return { ipAddress, macAddress }
}

const IPV4_LINK_LOCAL = '169.254.'

/** Whether a switch of an interface is on, which it is without the element. */
function isOn(element: XmlElement, ...path: readonly string[]): boolean {
  return !/^\s*(false|0)\s*$/i.test(element.textOf(...path) ?? '')
}

/** The IPv4 addresses of an interface, the address in use first. */
function usableIpv4(element: XmlElement): string[] {
  const config = element.find('IPv4', 'Config')
  const sources = ['Manual', 'FromDHCP', 'LinkLocal']
  // With DHCP, some cameras report the factory address, or 0.0.0.0, as the manual address.
  if (config?.find('DHCP') !== undefined && isOn(config, 'DHCP'))
    sources.sort((a, b) => Number(b === 'FromDHCP') - Number(a === 'FromDHCP'))
  const isUsable = (address: string) => isIPv4(address) && !/^(0|127)\./.test(address)
  return addressesOf(config, sources).filter(isUsable)
}

function addressesOf(
  config: XmlElement | undefined,
  sources: readonly string[] = ['Manual', 'FromDHCP', 'FromRA', 'LinkLocal'],
): string[] {
  const elements = sources.flatMap((source) => config?.all(source) ?? [])
  return elements.map((element) => element.textOf('Address')?.trim() ?? '')
}

export function readScopes(response: XmlElement): string[] {
  const scopes = response.all('Scopes').map((scope) => cameraText(scope.textOf('ScopeItem') ?? ''))
  return scopes.filter((scope) => scope !== '').slice(0, MAX_SCOPES)
}

/** The URL of each service, by namespace. */
export function readServices(response: XmlElement): Map<string, string> {
  const services = response
    .all('Service')
    .map((service) => [service.textOf('Namespace'), service.textOf('XAddr')] as const)
  return new Map(
    services.flatMap(([namespace, url]) => (namespace && url ? [[namespace, url]] : [])),
  )
}

/** Like {@link readServices}, from the answer to GetCapabilities, which has media 1 only. */
export function readCapabilities(response: XmlElement): Map<string, string> {
  const url = response.textOf('Capabilities', 'Media', 'XAddr')
  return new Map(url === undefined ? [] : [[MEDIA_1, url]])
}

export const MEDIA_1 = 'http://www.onvif.org/ver10/media/wsdl'
export const MEDIA_2 = 'http://www.onvif.org/ver20/media/wsdl'
