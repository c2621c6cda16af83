import { existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'

/** The properties of a device, from the process of the library. */
export type UsbProperties = Readonly<ReturnType<typeof propertiesOf>>

type Texts = 'manufacturerName' | 'productName' | 'serialNumber'

/**
 * What is used of a device of the library. The getters of the rest can open it, and throw. Our
 * declarations name no type of the library: its own need further declarations.
 */
export interface LibraryDevice extends Readonly<Record<Texts, string | null>> {
  readonly vendorId: number
  readonly productId: number
  readonly deviceClass: number
  readonly bus: string
  readonly address: number
  readonly ports: readonly number[]
  readonly speed?: 'low' | 'full' | 'high' | 'super' | 'superPlus'
  readonly configuration: {
    readonly interfaces: readonly { readonly alternate: { readonly interfaceClass: number } }[]
  }
}

/** A string descriptor has no more characters (USB 2.0, 9.6.7). */
const MAX_TEXT = 126

/**
 * @param sysfs on Linux, the directory of the devices of the buses. What the kernel has of a device
 *   is read there: opening a device needs rights, and wakes the device
 */
export function propertiesOf(device: LibraryDevice, sysfs: string | undefined) {
  const { bus, address, ports, speed } = device
  const isLinux = sysfs !== undefined
  const portPath = `${isLinux ? Number(bus) : bus}-${ports.join('.')}`
  const directory = isLinux ? path.join(sysfs, portPath) : undefined
  // The library opens a device for a text that the kernel does not have.
  const textOf = (name: Texts, file: string) =>
    directory === undefined || existsSync(path.join(directory, file))
      ? printable(attempt(() => device[name]))
      : undefined
  const ofInterfaces = attempt(() =>
    directory === undefined
      ? device.configuration.interfaces.map(({ alternate }) => alternate.interfaceClass)
      : interfaceClasses(directory),
  )
  // Class 0 of a device stands for the classes of its interfaces.
  const classes = new Set([device.deviceClass, ...(ofInterfaces ?? [])].filter((code) => code > 0))
  return {
    USB_DEVNODE: isLinux ? `/dev/bus/usb/${bus}/${String(address).padStart(3, '0')}` : undefined,
    USB_VENDOR_ID: hexadecimal(device.vendorId, 4),
    USB_PRODUCT_ID: hexadecimal(device.productId, 4),
    USB_MANUFACTURER: textOf('manufacturerName', 'manufacturer'),
    USB_PRODUCT: textOf('productName', 'product'),
    USB_SERIAL_NUMBER: textOf('serialNumber', 'serial'),
    USB_CLASSES: [...classes]
      .map((code) => hexadecimal(code, 2))
      .sort()
      .join(' '),
    /** Such as `1-2.3`: port 3 of the hub at port 2 of bus 1. */
    USB_PORT_PATH: portPath,
    USB_SPEED: speed,
  }
}

function interfaceClasses(directory: string): number[] {
  const interfaces = readdirSync(directory).filter((name) => name.includes(':'))
  return interfaces.map((name) =>
    Number.parseInt(readFileSync(path.join(directory, name, 'bInterfaceClass'), 'utf8'), 16),
  )
}

function hexadecimal(value: number, digits: number): string {
  return value.toString(16).padStart(digits, '0')
}

/** Undefined for a text that could mislead a person, or a program of a container. */
function printable(text: string | null | undefined): string | undefined {
  const value = text?.trim() ?? ''
  const isPlain = value.length <= MAX_TEXT && !/[\p{C}\p{Zl}\p{Zp}]/u.test(value)
  return isPlain && value !== '' ? value : undefined
}

/** The device may have gone, or cannot be opened. */
function attempt<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch {
    return undefined
  }
}
