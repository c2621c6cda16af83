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
  readonly manufacturer?: string
  readonly model?: string
  readonly firmware?: string
  readonly serialNumber?: string
  readonly hardwareId?: string
}

/** Milliseconds since the epoch; undefined if the answer has no valid time. */
export function readTime(response: XmlElement): number | undefined {
  const utc = response.find('SystemDateAndTime', 'UTCDateTime')
  const number = (...path: readonly string[]) => {
    const text = utc?.textOf(...path)
    return text !== undefined && /^\d{1,4}$/.test(text) ? Number(text) : Number.NaN
  }
  const [year, month, day] = [
    number('Date', 'Year'),
    number('Date', 'Month'),
    number('Date', 'Day'),
  ]
  const time = Date.UTC(
    year,
    month - 1,
    day,
    number('Time', 'Hour'),
    number('Time', 'Minute'),
    number('Time', 'Second'),
  )
  // Date.UTC takes a year below 100 as a year of the last century.
  return year >= 1970 && !Number.isNaN(time) ? time : undefined
}

export function readInformation(response: XmlElement): DeviceInformation {
  const text = (key: string, name: string) => {
    const value = cameraText(response.textOf(name) ?? '')
    return value === '' ? {} : { [key]: value }
  }
  return {
    ...text('manufacturer', 'Manufacturer'),
    ...text('model', 'Model'),
    ...text('firmware', 'FirmwareVersion'),
    ...text('serialNumber', 'SerialNumber'),
    ...text('hardwareId', 'HardwareId'),
  }
}

/** The first IPv4 address of the device, and the hardware address of the same interface. */
export function readNetworkInterfaces(response: XmlElement): {
  readonly ipAddress?: string
  readonly macAddress?: string
} {
  const interfaces = response.all('NetworkInterfaces').map((element) => {
    const config = element.find('IPv4', 'Config')
    const addresses = ['Manual', 'FromDHCP', 'LinkLocal'].flatMap((from) => config?.all(from) ?? [])
    return {
      ipAddress: addresses
        .map((address) => address.textOf('Address') ?? '')
        .find((address) => isIPv4(address)),
      macAddress: cameraText(element.textOf('Info', 'HwAddress') ?? '', 64) || undefined,
    }
  })
  const first =
    interfaces.find(({ ipAddress }) => ipAddress !== undefined) ??
    interfaces.find(({ macAddress }) => macAddress)
  return {
    ...(first?.ipAddress !== undefined && { ipAddress: first.ipAddress }),
    ...(first?.macAddress !== undefined && { macAddress: first.macAddress }),
  }
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
