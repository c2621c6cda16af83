import type { SlotName } from '@akrijs/api'
import { describe, expect, it } from 'vitest'
import type { ServedInstance } from '../instances/served-instance.js'
import type { ChosenSlot } from '../slots/resource.js'
import { servedWith } from '../testing/objects.js'
import { containerAllocation } from './allocation.js'

const PATHS = ['/a', '/b']

function granted(instance: string, index: number, more: Partial<ServedInstance> = {}): ChosenSlot {
  const slot = `${instance}-${index}` as SlotName
  return { instance: servedWith(more, instance.slice(-6)), slot, id: slot }
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
    const slots = [granted('cam-8120fe', 0), granted('cam-8120fe', 1), granted('cam-a19705', 1)]
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

it('R106 a container has each property, plain and with the digest, and each device node', () => {
  const properties = { UDEV_DEVPATH: '/devices/usb1', 'USB_RESOURCE_AKRI_SH_UDEV-GPU_1': '1:3' }
  const node = '/dev/bus/usb/001/002'
  const deviceSpecs = [{ hostPath: node, containerPath: node, permissions: 'rwm' }]
  const device = { id: 'd', deviceSpecs }
  expect(allocationOf(granted('cam-8120fe', 0, { device, properties }))).toMatchObject({
    envs: {
      ...properties,
      UDEV_DEVPATH_8120FE: '/devices/usb1',
      'USB_RESOURCE_AKRI_SH_UDEV-GPU_1_8120FE': '1:3',
    },
    devices: deviceSpecs,
  })
})
