import type { Device, ReportedDevice } from '@akrijs/sdk'
import { passesFilter } from '@akrijs/sdk/network'
import type { UsbDetails } from './details.js'
import type { UsbProperties } from './usb-properties.js'

/** The class of hubs (USB 2.0, 11.23.1). */
const HUB = '09'

/** The filters of the details, by property. */
const FILTERS = [
  ['vendorIds', 'USB_VENDOR_ID'],
  ['productIds', 'USB_PRODUCT_ID'],
  ['classes', 'USB_CLASSES'],
  ['serialNumbers', 'USB_SERIAL_NUMBER'],
  ['portPaths', 'USB_PORT_PATH'],
  ['speeds', 'USB_SPEED'],
] as const

/** What a Configuration gets of the devices that are plugged in, and the number of other hubs. */
export function usbDevices(
  all: readonly UsbProperties[],
  details: UsbDetails,
): { readonly devices: Device[]; readonly leftOut: ReportedDevice[]; readonly hubs: number } {
  const idOf = stableIds(all)
  const shown = all.filter((each) => details.hubs || !classesOf(each).includes(HUB))
  const devices: Device[] = []
  const leftOut: ReportedDevice[] = []
  for (const properties of shown) {
    const id = idOf(properties)
    const [filter, name] =
      FILTERS.find(([filter, name]) => {
        const value = name === 'USB_CLASSES' ? classesOf(properties) : properties[name]
        return !passesFilter(details[filter], value)
      }) ?? []
    if (name === undefined) devices.push(deviceOf(id, properties, details.permissions))
    else
      leftOut.push({ id, reason: `filtered by ${filter}`, detail: properties[name] || 'unknown' })
  }
  return { devices, leftOut, hubs: all.length - shown.length }
}

function classesOf({ USB_CLASSES: classes }: UsbProperties): string[] {
  return classes.split(' ')
}

/**
 * The id of a device names its product, and its serial number or else its port. Some manufacturers
 * give all devices one serial number. The same devices have the same ids after a restart.
 */
function stableIds(all: readonly UsbProperties[]): (device: UsbProperties) => string {
  const productOf = (device: UsbProperties) => `${device.USB_VENDOR_ID}:${device.USB_PRODUCT_ID}`
  const bySerial = (device: UsbProperties) => `${productOf(device)}:${device.USB_SERIAL_NUMBER}`
  const counts = new Map<string, number>()
  for (const id of all.map(bySerial)) counts.set(id, (counts.get(id) ?? 0) + 1)
  return (device) =>
    device.USB_SERIAL_NUMBER !== undefined && counts.get(bySerial(device)) === 1
      ? bySerial(device)
      : `${productOf(device)}@${device.USB_PORT_PATH}`
}

function deviceOf(id: string, properties: UsbProperties, permissions: string): Device {
  const { USB_DEVNODE: node } = properties
  const deviceSpecs = node ? [{ containerPath: node, hostPath: node, permissions }] : []
  return { id, properties, deviceSpecs }
}
