import type { SlotName } from '@akrijs/api'
import type { Device } from '@akrijs/runtime/handler'
import { describe, expect, it } from 'vitest'
import { HandlerAccess } from '../access/handler-access.js'
import type { ServedInstance } from '../instances/served-instance.js'
import type { ChosenSlot } from '../slots/resource.js'
import { checked, servedWith } from '../testing/objects.js'
import { containerAllocation } from './allocation.js'

const PATHS = ['/a', '/b']

function granted(instance: string, index: number, more: Partial<ServedInstance> = {}): ChosenSlot {
  const slot = `${instance}-${index}` as SlotName
  return { instance: servedWith(more, instance.slice(-6)), slot, id: slot, usage: '' }
}

/**
 * The allocation of these slots. The directory of each slot has its own path, by the index of the
 * slot.
 */
const allocationOf = (...slots: ChosenSlot[]) =>
  containerAllocation(
    'instance',
    slots,
    new Map(slots.map(({ slot }) => [slot, PATHS[Number(slot.at(-1))]])),
  )

const mount = (containerPath: string, hostPath: string) => ({
  containerPath,
  hostPath,
  readOnly: false,
})

describe('the directory for the reports of a container', () => {
  it('R68 is its own for each device, with the digest in the variable', () => {
    // If a container has several slots of a device, the first counts.
    const slots = [granted('cam-8120fe', 0), granted('cam-a19705', 1), granted('cam-8120fe', 1)]
    const { envs, mounts } = allocationOf(...slots)
    expect(envs).toEqual({
      AKRI_BROKER_INFO_DIRECTORY: '/run/akri/cam-8120fe',
      AKRI_BROKER_INFO_DIRECTORY_8120FE: '/run/akri/cam-8120fe',
      AKRI_BROKER_INFO_DIRECTORY_A19705: '/run/akri/cam-a19705',
    })
    expect(mounts).toEqual([
      mount('/run/akri/cam-8120fe', '/a'),
      mount('/run/akri/cam-a19705', '/b'),
    ])
  })

  it('R68 is absent if it could not be made', () => {
    expect(containerAllocation('instance', [granted('cam-8120fe', 0)], new Map())).toMatchObject({
      envs: {},
      mounts: [],
    })
  })

  it('R68 cannot be moved by a device or by a Configuration', () => {
    const device = {
      id: 'x',
      mounts: [{ containerPath: '/run/akri/cam-8120fe', hostPath: '/etc' }],
    }
    const properties = { AKRI_BROKER_INFO_DIRECTORY: '/etc' }
    const { envs, mounts } = allocationOf(granted('cam-8120fe', 0, { device, properties }))
    expect(envs.AKRI_BROKER_INFO_DIRECTORY).toBe('/run/akri/cam-8120fe')
    expect(mounts).toEqual([mount('/run/akri/cam-8120fe', '/a')])
  })
})

describe('the environment of a container', () => {
  const CAMERA = {
    ONVIF_DEVICE_SERVICE_URL: 'http://10.0.0.7/onvif/device_service',
    ONVIF_DEVICE_MAC_ADDRESS: '48:0f:cf:4e:1b:3d',
  }
  const GROUP = {
    UDEV_DEVPATH: '/devices/pci0000:00/0000:01:00.0',
    UDEV_DEVNODE_1: '/dev/snd/controlC0',
    'PCI_RESOURCE_AKRI_SH_UDEV-GPU': '0000:01:00.0',
    'USB_RESOURCE_AKRI_SH_UDEV-GPU_1': '1:3',
  }

  it.each<[handler: string, properties: Readonly<Record<string, string>>]>([
    ['debugEcho', { DEBUG_ECHO_DESCRIPTION: 'foo0' }],
    ['onvif', CAMERA],
    ['opcua', { OPCUA_DISCOVERY_URL: 'opc.tcp://10.0.0.8:4840/' }],
    ['udev', GROUP],
  ])('R106 has each property of %s, plain and with the digest', async (handler, properties) => {
    const node = '/dev/bus/usb/001/002'
    const spec = { hostPath: node, containerPath: node, permissions: 'rwm' }
    const reported: Device = {
      id: 'd',
      properties,
      ...(handler === 'udev' && { deviceSpecs: [spec] }),
    }
    const access = new HandlerAccess({
      paths: { find: async () => ({ present: new Set([node]), complete: true }) },
    })
    const [device] = await access.admit(handler, [checked(reported)])
    if (device === undefined) return expect.fail()
    expect(device.refusal).toBeUndefined()
    // As the plan of Instances has it: the properties of the Configuration count.
    const all = { ...device.properties, SITE: 'north', LD_PRELOAD: '/of/the/author.so' }
    const { envs, devices } = containerAllocation(
      'instance',
      [granted('cam-8120fe', 0, { device, properties: all })],
      new Map(),
    )
    const plain = { ...properties, SITE: 'north', LD_PRELOAD: '/of/the/author.so' }
    const withDigest = Object.entries(plain).map(([name, value]) => [`${name}_8120FE`, value])
    expect(envs).toEqual({ ...plain, ...Object.fromEntries(withDigest) })
    expect(devices).toEqual(handler === 'udev' ? [spec] : [])
  })
})
