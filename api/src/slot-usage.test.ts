import type { NodeName } from '@akrijs/kube/objects'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { InstanceName } from './names.js'
import { formatSlotUsage, parseSlotUsage, slotIndex, slotsOf } from './slot-usage.js'

const instance = 'cam-8120fe' as InstanceName
const node = fc.stringMatching(/^[a-z][a-z0-9.-]{0,20}$/).map((name) => name as NodeName)

describe('the value of a slot', () => {
  it.each([
    ['', { level: 'free' }],
    [undefined, { level: 'free' }],
    ['node-a', { level: 'instance', node: 'node-a' }],
    ['C:0:node-a', { level: 'configuration', virtualId: '0', node: 'node-a' }],
    ['C:cam-0:node-a', { level: 'configuration', virtualId: 'cam-0', node: 'node-a' }],
    ['C:0', { level: 'unreadable', text: 'C:0' }],
    ['C::node-a', { level: 'unreadable', text: 'C::node-a' }],
    ['X:0:node-a', { level: 'unreadable', text: 'X:0:node-a' }],
    ['C:0:node:a', { level: 'unreadable', text: 'C:0:node:a' }],
  ])('R38 is read: %s', (text, usage) => {
    expect(parseSlotUsage(text)).toEqual(usage)
  })

  it('R38 is written as it is read', () => {
    const usage = fc.oneof(
      fc.constant({ level: 'free' as const }),
      node.map((name) => ({ level: 'instance' as const, node: name })),
      fc.tuple(fc.nat(), node).map(([id, name]) => ({
        level: 'configuration' as const,
        virtualId: String(id),
        node: name,
      })),
    )
    fc.assert(
      fc.property(usage, (parsed) => {
        expect(parseSlotUsage(formatSlotUsage(parsed))).toEqual(parsed)
      }),
    )
  })

  it('A15 is free if the slot is absent, also if it was present before', () => {
    const [first, second] = ['cam-8120fe-0', 'cam-8120fe-1']
    const levels = (usage: Record<string, string>) =>
      [...slotsOf(instance, 2, usage)].map(([slot, { level }]) => [slot, level])
    expect(levels({ [first]: 'node-b', [second]: '' })).toEqual([
      [first, 'instance'],
      [second, 'free'],
    ])
    expect(levels({})).toEqual([
      [first, 'free'],
      [second, 'free'],
    ])
  })

  it('R24 has a slot for each index of the capacity, and finds the index of each slot', () => {
    fc.assert(
      fc.property(fc.nat({ max: 50 }), (capacity) => {
        const names = [...slotsOf(instance, capacity, {}).keys()]
        expect(names.map((name) => slotIndex(instance, name))).toEqual(
          Array.from({ length: capacity }, (_, index) => index),
        )
      }),
    )
  })

  it.each([
    'cam-8120fe-01',
    'cam-8120fe--1',
    'cam-8120fe-',
    'cam-8120fe-1x',
    'cam-a19705-0',
    '__proto__',
    'cam-8120fe-99999999999',
  ])('A17 recognises a text that is no slot: %s', (text) => {
    expect(slotIndex(instance, text)).toBeUndefined()
  })

  it('ignores keys that every JavaScript object has', () => {
    const usage = JSON.parse('{"__proto__": "node-b", "constructor": "node-b"}') as Record<
      string,
      string
    >
    expect([...slotsOf(instance, 1, usage).values()]).toEqual([{ level: 'free' }])
  })
})
