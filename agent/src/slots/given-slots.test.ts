import type { InstanceName, NodeName, SlotName } from '@akrijs/kube'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type GivenSlot, GivenSlots, usageOf } from './given-slots.js'

const INSTANCE = 'cam-8120fe' as InstanceName
const NODE = 'node-a' as NodeName
const slot = (index: number) => `${INSTANCE}-${index}` as SlotName
const ofInstance = (index: number): GivenSlot => ({ slot: slot(index), resourceName: `akri.sh/${INSTANCE}`, id: slot(index) })
const ofConfiguration = (index: number, id: string): GivenSlot => ({ slot: slot(index), resourceName: 'akri.sh/cam', id })

describe('the slots that containers have', () => {
  it('R38 R89 are written as their Instance has to say them', () => {
    expect(usageOf(ofInstance(0), NODE)).toBe('node-a')
    expect(usageOf(ofConfiguration(0, '4'), NODE)).toBe('C:4:node-a')
    expect(usageOf(ofConfiguration(0, 'cam-4'), NODE)).toBe('C:cam-4:node-a')
  })

  it('are of an Instance as far as its capacity goes', () => {
    const given = new GivenSlots()
    for (const one of [ofInstance(0), ofConfiguration(1, '0'), ofInstance(2)]) given.note(one)
    given.note({ ...ofInstance(0), slot: 'cam-a19705-0' as SlotName, id: 'cam-a19705-0' })
    expect(given.of(INSTANCE, 2)).toEqual([ofInstance(0), ofConfiguration(1, '0')])
  })

  it('are told of once, when something changes about them', () => {
    const given = new GivenSlots()
    const told: string[] = []
    given.onChange((one) => told.push(one), new AbortController().signal)
    for (let round = 0; round < 3; round++) given.note(ofConfiguration(0, '7'))
    expect(told.splice(0)).toEqual([slot(0)])
    given.note(ofConfiguration(1, '7'))
    expect(told.splice(0)).toEqual([slot(0), slot(1)])
    // It is another slot's by now.
    given.forget(ofConfiguration(0, '7'))
    expect(told).toEqual([])
    given.forget(ofConfiguration(1, '7'))
    expect(given.list()).toEqual([])
  })

  it('each id stands for the slot that was noted last, whatever is noted and forgotten', () => {
    const one = fc.tuple(fc.nat({ max: 3 }), fc.nat({ max: 3 }), fc.boolean()).map(([at, id, direct]) => ({
      given: direct ? ofInstance(at) : ofConfiguration(at, String(id)),
    }))
    const step = fc.tuple(fc.boolean(), one).map(([note, { given }]) => ({ note, given }))
    fc.assert(
      fc.property(fc.array(step), (steps) => {
        const given = new GivenSlots()
        const model = new Map<string, GivenSlot>()
        for (const { note, given: each } of steps) {
          const key = `${each.resourceName} ${each.id}`
          if (note) {
            given.note(each)
            model.set(key, each)
          } else {
            given.forget(each)
            if (model.get(key)?.slot === each.slot) model.delete(key)
          }
        }
        const inOrder = (all: Iterable<GivenSlot>) => [...all].map((each) => JSON.stringify(each)).sort()
        expect(inOrder(given.list())).toEqual(inOrder(model.values()))
        expect(inOrder([0, 1, 2, 3].flatMap((index) => given.at(slot(index))))).toEqual(inOrder(model.values()))
        for (const { slot: at, resourceName, id } of model.values()) expect(given.slotOf(resourceName, id)).toBe(at)
      }),
    )
  })
})
