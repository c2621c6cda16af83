import { mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { beforeEach, describe, expect, it } from 'vitest'
import { temporaryDirectory } from '../../../test/support/temporary-directory.js'
import { type LibraryDevice, propertiesOf } from './usb-properties.js'

let sysfs: string

beforeEach(async () => {
  sysfs = await temporaryDirectory()
})

const device: LibraryDevice = {
  vendorId: 0x0403,
  productId: 0x6001,
  deviceClass: 0,
  bus: '001',
  address: 7,
  ports: [2, 3],
  speed: 'full',
  manufacturerName: 'FTDI',
  productName: 'USB Serial',
  serialNumber: 'A50285BI',
  configuration: {
    interfaces: [0x0e, 0x01].map((interfaceClass) => ({ alternate: { interfaceClass } })),
  },
}

/** The files of the kernel about the device. */
function writeSysfs(files: Readonly<Record<string, string>>) {
  for (const [file, text] of Object.entries(files)) {
    const target = path.join(sysfs, '1-2.3', file)
    mkdirSync(path.dirname(target), { recursive: true })
    writeFileSync(target, text)
  }
}

/** A getter that opens the device. */
const opening = (name: string) => ({
  get: () => expect.fail(`the device was opened for ${name}`),
  enumerable: true,
})

describe('the properties of a USB device', () => {
  it('are those of the library and the kernel on Linux, with the device node', () => {
    writeSysfs({
      manufacturer: 'FTDI\n',
      product: 'USB Serial\n',
      serial: 'A50285BI\n',
      '1-2.3:1.0/bInterfaceClass': '08\n',
      '1-2.3:1.1/bInterfaceClass': '03\n',
      '1-2.3:1.2/bInterfaceClass': '03\n',
    })
    expect(propertiesOf(device, sysfs)).toEqual({
      USB_DEVNODE: '/dev/bus/usb/001/007',
      USB_VENDOR_ID: '0403',
      USB_PRODUCT_ID: '6001',
      USB_MANUFACTURER: 'FTDI',
      USB_PRODUCT: 'USB Serial',
      USB_SERIAL_NUMBER: 'A50285BI',
      USB_CLASSES: '03 08',
      USB_PORT_PATH: '1-2.3',
      USB_SPEED: 'full',
    })
  })

  it('are read on Linux without opening the device', () => {
    const closed = Object.defineProperties(
      { ...device, deviceClass: 0xff },
      {
        manufacturerName: opening('manufacturerName'),
        productName: opening('productName'),
        serialNumber: opening('serialNumber'),
        configuration: opening('configuration'),
      },
    )
    expect(propertiesOf(closed, sysfs)).toMatchObject({
      USB_CLASSES: 'ff',
      USB_PRODUCT: undefined,
      USB_SERIAL_NUMBER: undefined,
    })
  })

  it('come from the library alone on other systems, where there is no node', () => {
    expect(propertiesOf({ ...device, bus: '14', deviceClass: 0xef }, undefined)).toMatchObject({
      USB_DEVNODE: undefined,
      USB_PRODUCT: 'USB Serial',
      USB_CLASSES: '01 0e ef',
      USB_PORT_PATH: '14-2.3',
    })
  })

  it('lack what a device that cannot be opened does not tell', () => {
    const refused = () => {
      throw new Error('access denied')
    }
    const locked = Object.defineProperties(
      { ...device, deviceClass: 0xff },
      { serialNumber: { get: refused }, configuration: { get: refused } },
    )
    expect(propertiesOf(locked, undefined)).toMatchObject({
      USB_PRODUCT: 'USB Serial',
      USB_SERIAL_NUMBER: undefined,
      USB_CLASSES: 'ff',
    })
  })

  it.each(['\u001b[2J', 'a\nb', 'a\u202eb', 'a\u2028b', '\ud800', 'x'.repeat(127), ' ', '', null])(
    'have no text %j',
    (text) => {
      expect(propertiesOf({ ...device, serialNumber: text }, undefined)).toMatchObject({
        USB_SERIAL_NUMBER: undefined,
      })
    },
  )
})
