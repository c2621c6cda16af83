import { firstLine } from '@akrijs/runtime'
import { maskProperties } from './masked.js'
import type { Configuration } from './types.js'

const BEST = new RegExp(
  `^(${[
    ...['UDEV_DEVNODE', 'ONVIF_DEVICE_SERVICE_URL', 'OPCUA_DISCOVERY_URL'],
    ...[
      'MDNS_ADDRESS',
      'SSDP_FRIENDLY_NAME',
      'MODBUS_ADDRESS',
      'MQTT_NAME',
      'SNMP_NAME',
      'USB_PRODUCT',
    ],
  ].join('|')})`,
)

/** The property that identifies a device for people. */
export function deviceText(properties: Readonly<Record<string, string>>): string {
  const entries = Object.entries(maskProperties(properties))
  const best = entries.find(([name]) => BEST.test(name))
  return (best ?? entries[0])?.[1] ?? ''
}

export function propertiesText(properties: Readonly<Record<string, string>>): string {
  return Object.entries(maskProperties(properties))
    .map(([name, value]) => `${name}=${value}`)
    .join(' ')
}

/** Why there are no devices, or not all that the handler saw: the message of `Ready`. */
export function shortageText({ status }: Configuration): string | undefined {
  const ready = status?.conditions.find(({ type }) => type === 'Ready')
  const isShort = ready?.reason === 'NoDevices' || ready?.reason === 'DevicesLeftOut'
  return isShort ? firstLine(ready.message) : undefined
}

/** The first condition that is not met, in one line. */
export function failureText({ status }: Configuration): string | undefined {
  const failed = status?.conditions.find((condition) => condition.status === 'False')
  return failed && `${failed.reason}: ${firstLine(failed.message)}`
}

/** Whether a Configuration is ready, and why not, or why it has few devices, in one line. */
export function stateText(configuration: Configuration): string {
  const failure = failureText(configuration)
  if (failure !== undefined) return failure
  const ready = configuration.status?.conditions.find(({ type }) => type === 'Ready')
  if (ready === undefined) return 'Starting'
  if (ready.status !== 'True') return `${ready.reason}: ${firstLine(ready.message)}`
  return ['Ready', shortageText(configuration) ?? []].flat().join(': ')
}
