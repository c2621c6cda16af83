import { DiscoveryProperties, InvalidDetailsError, silentLogger } from '@akrijs/sdk'
import { followDiscovery, type ReportedList } from '@akrijs/sdk/host'
import { describe, expect, it } from 'vitest'
import { createUsbHandler } from './handler.js'
import { type UsbBus, UsbLibraryError } from './usb-library.js'
import type { UsbProperties } from './usb-properties.js'

/** A serial adapter without a serial number. */
const adapter: UsbProperties = {
  USB_DEVNODE: '/dev/bus/usb/001/004',
  USB_VENDOR_ID: '0403',
  USB_PRODUCT_ID: '6001',
  USB_MANUFACTURER: 'FTDI',
  USB_PRODUCT: 'USB Serial',
  USB_SERIAL_NUMBER: undefined,
  USB_CLASSES: 'ff',
  USB_PORT_PATH: '1-2',
  USB_SPEED: 'full',
}
const camera: UsbProperties = {
  USB_DEVNODE: '/dev/bus/usb/001/005',
  USB_VENDOR_ID: '046d',
  USB_PRODUCT_ID: '0825',
  USB_MANUFACTURER: undefined,
  USB_PRODUCT: 'Webcam',
  USB_SERIAL_NUMBER: 'CAM-1',
  USB_CLASSES: '01 0e ef',
  USB_PORT_PATH: '1-3.1',
  USB_SPEED: 'high',
}
const hub: UsbProperties = { ...adapter, USB_CLASSES: '09', USB_PORT_PATH: '1-3' }

/** What the handler tells of these states of the bus. */
function discover(details: object, ...states: readonly (readonly UsbProperties[])[]) {
  return listsOf(details, states.length, async function* () {
    for (const devices of states) yield { devices, hasBus: true }
  })
}

/** So many lists of the handler. */
async function listsOf(
  details: object,
  count: number,
  follow: () => AsyncGenerator<UsbBus, void, void>,
) {
  const stop = new AbortController()
  const discovery = followDiscovery(createUsbHandler({ follow }), {
    details: JSON.stringify(details),
    properties: new DiscoveryProperties(),
    signal: stop.signal,
    log: silentLogger,
  })
  const lists: ReportedList[] = []
  while (lists.length < count) {
    const { value } = await discovery.next()
    lists.push(value ?? expect.fail('the discovery has ended'))
  }
  stop.abort()
  return lists
}

const idsOf = (list: ReportedList | undefined) => list?.devices.map(({ id }) => id)

describe('the USB handler', () => {
  it('offers what is plugged in with its node, and no hubs', async () => {
    const [list] = await discover({}, [hub, adapter])
    const node = '/dev/bus/usb/001/004'
    expect(list?.devices).toEqual([
      {
        id: '0403:6001@1-2',
        properties: {
          USB_DEVNODE: node,
          USB_VENDOR_ID: '0403',
          USB_PRODUCT_ID: '6001',
          USB_MANUFACTURER: 'FTDI',
          USB_PRODUCT: 'USB Serial',
          USB_CLASSES: 'ff',
          USB_PORT_PATH: '1-2',
          USB_SPEED: 'full',
        },
        mounts: [],
        deviceSpecs: [{ containerPath: node, hostPath: node, permissions: 'rw' }],
      },
    ])
    expect(list?.leftOut.devices).toEqual([])
  })

  it('offers hubs and other permissions by the details, and no node without one', async () => {
    const [list] = await discover({ hubs: true, permissions: 'r' }, [
      hub,
      { ...camera, USB_DEVNODE: undefined },
    ])
    expect(list?.devices).toMatchObject([
      { id: '0403:6001@1-3', deviceSpecs: [{ permissions: 'r' }] },
      { id: '046d:0825:CAM-1', deviceSpecs: [] },
    ])
  })

  it('names a device by its serial number, also at another port with another node', async () => {
    const moved = { USB_PORT_PATH: '2-1', USB_DEVNODE: '/dev/bus/usb/002/009' }
    const lists = await discover({}, [camera], [{ ...camera, ...moved }])
    expect(lists.map(idsOf)).toEqual([['046d:0825:CAM-1'], ['046d:0825:CAM-1']])
    expect(lists[1]?.devices).toMatchObject([
      { properties: moved, deviceSpecs: [{ hostPath: moved.USB_DEVNODE }] },
    ])
  })

  it('names devices that share a serial number by their ports, in any order', async () => {
    const twin = { ...camera, USB_PORT_PATH: '1-4' }
    const other = { ...camera, USB_PRODUCT_ID: '0826' }
    const all = ['046d:0825@1-3.1', '046d:0825@1-4', '046d:0826:CAM-1']
    const lists = await discover({}, [camera, twin, other], [twin])
    expect(lists.map(idsOf)).toEqual([all, ['046d:0825:CAM-1']])
    const [inOtherOrder] = await discover({}, [twin, other, camera])
    expect(idsOf(inOtherOrder)?.sort()).toEqual(all)
  })

  it.each([
    [{ vendorIds: { items: ['0x046D'] } }, '0403'],
    [{ productIds: { items: ['0825'] } }, '6001'],
    [{ classes: { items: ['0e', '03'] } }, 'ff'],
    [{ classes: { items: ['FF'], action: 'Exclude' } }, 'ff'],
    [{ serialNumbers: { items: ['CAM-1'] } }, 'unknown'],
    [{ portPaths: { items: ['1-3.1'] } }, '1-2'],
    [{ speeds: { items: ['high', 'super'] } }, 'full'],
  ])('leaves out what the filter %j excludes', async (details, detail) => {
    const [list] = await discover(details, [adapter, camera])
    expect(idsOf(list)).toEqual(['046d:0825:CAM-1'])
    expect(list?.leftOut.devices).toEqual([
      { id: '0403:6001@1-2', reason: `filtered by ${Object.keys(details)[0]}`, detail },
    ])
  })

  it('has no filter without items', async () => {
    const [list] = await discover({ vendorIds: null, classes: {}, speeds: { items: null } }, [
      adapter,
      camera,
    ])
    expect(idsOf(list)).toHaveLength(2)
  })

  it('says why it finds nothing', async () => {
    const [hubs, none] = await discover({}, [hub, { ...hub, USB_PORT_PATH: '1-4' }], [])
    expect(hubs?.remarks).toEqual(['nothing is plugged in but 2 USB hubs'])
    expect(none?.remarks).toEqual(['nothing is plugged in but 0 USB hubs'])
    const [filtered] = await discover({ vendorIds: { items: [] } }, [adapter])
    expect(filtered?.remarks).toEqual([])
    const [list] = await listsOf({}, 1, async function* () {
      yield { devices: [], hasBus: false }
    })
    expect(list?.remarks).toEqual(['this machine has no USB bus: there is no /sys/bus/usb'])
  })

  it('fails with what the library says', async () => {
    const failed = listsOf({}, 2, async function* () {
      yield { devices: [adapter], hasBus: true }
      throw new UsbLibraryError('the USB library ended its process: SIGSEGV')
    })
    await expect(failed).rejects.toThrow('the USB library ended its process: SIGSEGV')
  })

  it.each([
    [{ vendorIds: { items: [403] } }, 'write 4 hexadecimal digits in quotes, such as "0403"'],
    [{ productIds: { items: ['60'] } }, 'write 4 hexadecimal digits in quotes, such as "6001"'],
    [{ classes: { items: ['video'] } }, 'write 2 hexadecimal digits in quotes, such as "0e"'],
    [{ speeds: { items: ['fast'] } }, 'speeds.items[0]'],
    [{ permissions: 'x' }, 'permissions'],
    [{ vendorId: '0403' }, 'vendorId'],
  ])('refuses the details %j', async (details, problem) => {
    const refused = discover(details, [])
    await expect(refused).rejects.toThrow(InvalidDetailsError)
    await expect(refused).rejects.toThrow(problem)
  })
})
