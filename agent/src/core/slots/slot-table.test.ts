import type { ConfigurationName, InstanceName } from '@akrijs/api'
import { objectKey } from '@akrijs/kube/objects'
import { describe, expect, it } from 'vitest'
import { instanceWith } from '../../testing/objects.js'
import { slotTable } from './slot-table.js'

const served = {
  key: objectKey('default', 'cam-8120fe'),
  name: 'cam-8120fe' as InstanceName,
  configuration: 'cam' as ConfigurationName,
  digest: '8120fe',
  device: { id: 'foo0' },
  properties: {},
  healthy: true,
  capacity: 2,
}

describe('the slot table of an Instance', () => {
  it('R82 A13 is usable while device and Instance are there and stay', () => {
    const leaving = instanceWith({}, {}, { deletionTimestamp: '2026-01-01T00:00:00Z' })
    expect(slotTable(served, instanceWith({})).usable).toBe(true)
    expect(slotTable(served, leaving).usable).toBe(false)
    expect(slotTable(served, undefined).usable).toBe(false)
    expect(slotTable({ ...served, healthy: false }, instanceWith({})).usable).toBe(false)
  })

  it('A20 has the smaller capacity of the Instance and its Configuration', () => {
    expect(
      slotTable({ ...served, capacity: 3 }, instanceWith({}, { capacity: 2 })).slots.size,
    ).toBe(2)
    expect(
      slotTable({ ...served, capacity: 2 }, instanceWith({}, { capacity: 3 })).slots.size,
    ).toBe(2)
    expect(slotTable(served, undefined).slots.size).toBe(2)
  })

  it('A20 counts claims beyond the capacity until they are released', () => {
    const usage = { 'cam-8120fe-0': 'node-a', 'cam-8120fe-2': 'node-b', 'cam-8120fe-3': '' }
    expect(slotTable(served, instanceWith(usage)).beyond.size).toBe(1)
    expect(slotTable({ ...served, capacity: 1 }, instanceWith(usage)).beyond.size).toBe(1)
    expect(
      slotTable({ ...served, capacity: 3 }, instanceWith(usage, { capacity: 3 })).beyond.size,
    ).toBe(0)
  })
})
