import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest'
import { describeUnless } from '../../support/unless.js'
import { kernelImage } from './kernel-image.js'
import { UsbMachine } from './usb-machine.js'

const image = await kernelImage()
const lacks = 'missing' in image ? [image.missing] : []

describeUnless(lacks, 'the USB handler on a USB bus', () => {
  let machine: UsbMachine

  beforeAll(async () => {
    if ('missing' in image) return
    machine = await UsbMachine.boot(image)
  })

  afterAll(() => machine?.stop())

  async function watch(details: object, options: { readonly alone?: boolean } = {}) {
    const lists = await machine.guest.watch(details, { ...options, handler: 'usb' })
    onTestFinished(() => lists.stop())
    return lists
  }

  /** The node of the device at a port. */
  async function nodeAt(port: string): Promise<string> {
    const number = await machine.guest.run(`cat /sys/bus/usb/devices/1-${port}/devnum`)
    return `/dev/bus/usb/001/${number.trim().padStart(3, '0')}`
  }

  it('offers a device at a hub, and the same device at another port, without the hub', async () => {
    const lists = await watch({ permissions: 'r' })
    expect(lists.ids).toEqual([])
    await machine.plug({ kind: 'usb-hub', port: '1' })
    await machine.plug({ kind: 'usb-kbd', port: '1.2', serial: 'KBD-42' })
    const id = '0627:0001:KBD-42'
    const { devices } = await lists.untilIds([id])
    const node = await nodeAt('1.2')
    expect(devices).toEqual([
      {
        id,
        properties: {
          USB_DEVNODE: node,
          USB_VENDOR_ID: '0627',
          USB_PRODUCT_ID: '0001',
          USB_MANUFACTURER: 'QEMU',
          USB_PRODUCT: 'QEMU USB Keyboard',
          USB_SERIAL_NUMBER: 'KBD-42',
          USB_CLASSES: '03',
          USB_PORT_PATH: '1-1.2',
          USB_SPEED: expect.stringMatching(/^(full|high)$/),
        },
        mounts: [],
        deviceSpecs: [{ containerPath: node, hostPath: node, permissions: 'r' }],
      },
    ])
    await machine.guest.run(`test -c ${node}`)

    await machine.unplug('1.2')
    await machine.plug({ kind: 'usb-kbd', port: '3', serial: 'KBD-42' })
    const moved = await lists.until('the other port', ({ devices: [device] }) =>
      String(device?.properties?.USB_PORT_PATH).startsWith('1-3'),
    )
    expect(moved.devices).toMatchObject([{ id, properties: { USB_DEVNODE: await nodeAt('3') } }])
    await machine.unplug('3')
    await machine.unplug('1')
    await lists.untilIds([])
  })

  it('names devices with one serial number by their ports, and finds them in a Pod', async () => {
    const classes = { items: ['03'] }
    const lists = await watch({ classes }, { alone: true })
    for (const port of ['4', '5'])
      await machine.plug({ kind: 'usb-mouse', port, serial: '0123456789' })
    await lists.untilIds(['0627:0001@1-4', '0627:0001@1-5'])
    await machine.unplug('4')
    await lists.untilIds(['0627:0001:0123456789'])
    await machine.unplug('5')
    await lists.untilIds([])
  })
})
