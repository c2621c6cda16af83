import type { NodeName } from '@akrijs/kube/objects'
import { describe, expect, it } from 'vitest'
import { instanceWith, servedWith } from '../testing/objects.js'
import { instanceSlots } from './instance-slots.js'
import { offeredSlots } from './offer.js'

const NODE = 'node-a' as NodeName
const of = (facts: Parameters<typeof instanceSlots>[0]) => instanceSlots(facts, NODE)

describe('the slots of an Instance', () => {
  it('R82 A13 are usable while device and Instance are there and stay', () => {
    const served = servedWith()
    const leaving = instanceWith({}, {}, { deletionTimestamp: '2026-01-01T00:00:00Z' })
    expect(of({ served, instance: instanceWith({}) })).toMatchObject({ usable: true })
    for (const [state, instance] of [
      ['leaving', leaving],
      ['absent', undefined],
    ] as const)
      expect(of({ served, instance })).toMatchObject({ state, usable: false, free: [] })
    const unhealthy = of({ served: servedWith({ healthy: false }), instance: instanceWith({}) })
    expect(unhealthy).toMatchObject({ usable: false, free: [] })
  })

  it('A20 are as many as the smaller capacity of the Instance and its Configuration', () => {
    const sizeOf = (own: number, instance?: number) =>
      of({
        served: servedWith({ capacity: own }),
        instance: instance === undefined ? undefined : instanceWith({}, { capacity: instance }),
      }).slots.size
    expect([sizeOf(3, 2), sizeOf(2, 3), sizeOf(2)]).toEqual([2, 2, 2])
  })

  it('A20 beyond the capacity count until they are released, and hold free slots back', () => {
    const usage = { 'cam-8120fe-0': 'node-a', 'cam-8120fe-2': 'node-b', 'cam-8120fe-3': '' }
    const seen = (capacity: number) =>
      of({ served: servedWith({ capacity }), instance: instanceWith(usage, { capacity: 4 }) })
    expect(seen(2)).toMatchObject({ beyond: { size: 1 }, free: [] })
    expect(seen(1)).toMatchObject({ beyond: { size: 1 }, free: [] })
    expect(seen(4)).toMatchObject({ beyond: { size: 0 }, free: ['cam-8120fe-1', 'cam-8120fe-3'] })
  })

  it('R7 R84 of running containers are not free, whatever the Instance has lost', () => {
    const usage = { 'cam-8120fe-0': '', 'cam-8120fe-1': 'node-b' }
    const inUse = { 'cam-8120fe-0': 'C:5:node-a', 'cam-8120fe-1': 'node-a' }
    const { slots, free, byId } = of({ served: servedWith(), instance: instanceWith(usage), inUse })
    expect([...slots.values()]).toMatchObject([{ virtualId: '5' }, { node: 'node-b' }])
    expect(free).toEqual([])
    expect([...byId]).toEqual([['5', 'cam-8120fe-0']])
  })

  it('R84 of running containers have their ids, whatever this node has claimed', () => {
    const usage = { 'cam-8120fe-0': 'node-a', 'cam-8120fe-1': 'C:7:node-a' }
    const inUse = { 'cam-8120fe-0': 'C:5:node-a', 'cam-8120fe-1': 'node-a' }
    const slots = of({ served: servedWith(), instance: instanceWith(usage), inUse })
    expect([...slots.byId]).toEqual([['5', 'cam-8120fe-0']])
    expect(offeredSlots(slots, NODE)).toEqual(
      new Map([
        ['cam-8120fe-0', false],
        ['cam-8120fe-1', true],
      ]),
    )
  })

  it('A20 R84 of containers beyond the capacity hold free slots back without a claim too', () => {
    const served = servedWith({ capacity: 1 })
    const inUse = { 'cam-8120fe-1': 'C:5:node-a' }
    const { free, byId } = of({ served, instance: instanceWith({}, { capacity: 1 }), inUse })
    expect([free, [...byId]]).toEqual([[], [['5', 'cam-8120fe-1']]])
  })
})
