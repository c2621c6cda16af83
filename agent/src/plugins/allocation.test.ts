import type { SlotName } from '@akrijs/api'
import { describe, expect, it } from 'vitest'
import type { ServedInstance } from '../instances/served-instance.js'
import type { ChosenSlot } from '../slots/resource.js'
import { servedWith } from '../testing/objects.js'
import { containerAllocation } from './allocation.js'

const cam = (digest: string, index: number, more: Partial<ServedInstance> = {}): ChosenSlot => {
  const slot = `cam-${digest}-${index}` as SlotName
  return { instance: servedWith(more, digest), slot, id: slot }
}
/** The directory of each slot has its own path, by the index of the slot. */
const allocationOf = (...slots: ChosenSlot[]) =>
  containerAllocation('instance', slots, new Map(slots.map(({ slot }) => [slot, slot.slice(-2)])))
const mount = (containerPath: string, hostPath: string) => ({
  containerPath,
  hostPath,
  readOnly: false,
})

describe('the directory for the reports of a container', () => {
  it('R68 is its own for each device, with the digest in the variable', () => {
    // If a container has several slots of a device, the first counts.
    const { envs, mounts } = allocationOf(cam('8120fe', 0), cam('8120fe', 1), cam('a19705', 1))
    expect(envs).toEqual({
      AKRI_BROKER_INFO_DIRECTORY: '/run/akri/cam-8120fe',
      AKRI_BROKER_INFO_DIRECTORY_8120FE: '/run/akri/cam-8120fe',
      AKRI_BROKER_INFO_DIRECTORY_A19705: '/run/akri/cam-a19705',
    })
    expect(mounts).toEqual([
      mount('/run/akri/cam-8120fe', '-0'),
      mount('/run/akri/cam-a19705', '-1'),
    ])
  })

  it('R68 is absent if it could not be made', () => {
    const { envs, mounts } = containerAllocation('instance', [cam('8120fe', 0)], new Map())
    expect([envs, mounts]).toEqual([{}, []])
  })

  it('R68 cannot be moved by a device or by a Configuration', () => {
    const mounts = [{ containerPath: '/run/akri/cam-8120fe', hostPath: '/etc' }]
    const properties = { AKRI_BROKER_INFO_DIRECTORY: '/etc' }
    const allocation = allocationOf(cam('8120fe', 0, { device: { id: 'x', mounts }, properties }))
    expect(allocation.envs.AKRI_BROKER_INFO_DIRECTORY).toBe('/run/akri/cam-8120fe')
    expect(allocation.mounts).toEqual([mount('/run/akri/cam-8120fe', '-0')])
  })
})
