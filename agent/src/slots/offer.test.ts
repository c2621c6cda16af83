import { type InstanceName, type NodeName, type SlotName, slotName, slotsOf } from '@akrijs/kube'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { offeredSlots } from './offer.js'

const instance = 'cam-8120fe' as InstanceName

describe('what is offered', () => {
  it('R82 R84 is what nobody else holds, and nothing of a device that cannot be seen', () => {
    const usages = fc.array(fc.constantFrom('', 'node-a', 'node-b', 'C:0:node-a', 'C:1:node-b', 'C:', 'x:y'), { maxLength: 8 })
    fc.assert(
      fc.property(usages, fc.boolean(), (values, healthy) => {
        const slots = slotsOf(
          instance,
          values.length,
          Object.fromEntries(values.map((value, index) => [slotName(instance, index), value])),
        )
        const offered = offeredSlots(slots, { node: 'node-a' as NodeName, healthy })
        const expected = values.map(
          (value, index) => [slotName(instance, index), healthy && (value === '' || value === 'node-a')] as [SlotName, boolean],
        )
        expect([...offered]).toEqual(expected)
      }),
    )
  })
})
