import { isIPv4 } from 'node:net'
import type { XmlElement } from '../xml.js'
import { cameraText } from './camera-text.js'
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

/** The first IPv4 address of the device, and the hardware address of the same interface. */
export function readNetworkInterfaces(response: XmlElement): {
  readonly ipAddress?: string | undefined
  readonly macAddress?: string | undefined
} {
  const interfaces = response.all('NetworkInterfaces').map((element) => {
    const config = element.find('IPv4', 'Config')
    const addresses = ['Manual', 'FromDHCP', 'LinkLocal'].flatMap((from) => config?.all(from) ?? [])
    return {
      ipAddress: addresses
        .map((address) => address.textOf('Address') ?? '')
        // With DHCP, some cameras report 0.0.0.0 as the manual address.
        .find((address) => isIPv4(address) && address !== '0.0.0.0'),
      macAddress: cameraText(element.textOf('Info', 'HwAddress') ?? '', 64) || undefined,
    }
  })
  return (
    interfaces.find(({ ipAddress }) => ipAddress !== undefined) ??
    interfaces.find(({ macAddress }) => macAddress !== undefined) ??
    {}
  )
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
