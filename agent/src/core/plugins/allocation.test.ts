import type { InstanceName, SlotName } from '@akrijs/api'
import { objectKey } from '@akrijs/kube/objects'
import { describe, expect, it } from 'vitest'
import { containerAllocation, type GrantedSlot } from './allocation.js'

const PATHS = ['/a', '/b']

function granted(
  instance: string,
  index: number,
  more: Partial<GrantedSlot['instance']> = {},
): Omit<GrantedSlot, 'id'> {
  const slot = `${instance}-${index}` as SlotName
  const name = instance as InstanceName
  const key = objectKey('default', instance)
  const digest = instance.slice(-6)
  return {
    instance: { key, name, digest, device: { id: instance }, properties: {}, ...more },
    slot,
    annotation: slot,
  }
}

/**
 * The allocation of these slots. The directory of each slot has its own path, by the index of the
 * slot.
 */
const allocationOf = (...slots: Omit<GrantedSlot, 'id'>[]) =>
  containerAllocation(slots, new Map(slots.map(({ slot }) => [slot, PATHS[Number(slot.at(-1))]])))

const mount = (containerPath: string, hostPath: string) => ({
  containerPath,
  hostPath,
  readOnly: false,
})

describe('the directory for the reports of a container', () => {
  it('R68 is its own for each device, with the digest in the variable', () => {
    const { envs, mounts } = allocationOf(granted('cam-8120fe', 0), granted('cam-a19705', 1))
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

  it('R68 is that of the first slot if the container has several slots of a device', () => {
    const { mounts } = allocationOf(granted('cam-8120fe', 0), granted('cam-8120fe', 1))
    expect(mounts).toEqual([mount('/run/akri/cam-8120fe', '/a')])
  })

  it('R68 is absent if it could not be made', () => {
    expect(containerAllocation([granted('cam-8120fe', 0)], new Map())).toMatchObject({
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
