import type { Configuration } from '@akrijs/api'
import { firstLine } from './table.js'

/** The property that identifies a device for people. */
export function deviceText(properties: Readonly<Record<string, string>>): string {
  const entries = Object.entries(properties)
  const best = entries.find(([name]) =>
    /^(UDEV_DEVNODE|ONVIF_DEVICE_SERVICE_URL|OPCUA_DISCOVERY_URL)/.test(name),
  )
  return (best ?? entries[0])?.[1] ?? ''
}

export function propertiesText(properties: readonly (readonly [string, string])[]): string {
  return properties.map(([name, value]) => `${name}=${value}`).join(' ')
}

/** The first condition that is not met, in one line. */
export function failureText({ status }: Configuration): string | undefined {
  const failed = status?.conditions.find((condition) => condition.status === 'False')
  return failed && `${failed.reason}: ${firstLine(failed.message)}`
}
