import { applyJsonPatch } from '@akrijs/kube/testing'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseInstanceObject } from './api-objects.js'
import { omitsFreeSlots, writableCapacity } from './compatibility.js'
import { leavePatch, releasePatch, updatePatch } from './instance-patches.js'
import type { InstanceName, SlotName } from './names.js'
import { slotIndex, slotName } from './slot-usage.js'
import type { Instance } from './types.js'

const NAME = 'cam-8120fe' as InstanceName
const slot = (index: number): SlotName => slotName(NAME, index)
const [FIRST, SECOND] = [slot(0), slot(1)]

function instanceOf(deviceUsage: Record<string, string>, capacity = 2): Instance {
  const version = { generation: 1, resourceVersion: '1', creationTimestamp: '' }
  const metadata = { name: NAME, namespace: 'plant', uid: 'u', ...version }
  const spec = {
    configurationName: 'cam',
    cdiName: 'akri.sh/cam=8120fe',
    capacity,
    shared: true,
    brokerProperties: {},
    nodes: ['node-a', 'node-b'],
    deviceUsage,
  }
  const object = { apiVersion: 'akri.sh/v0', kind: 'Instance', metadata, spec }
  return parseInstanceObject(object) ?? expect.fail('no Instance')
}

/** The spec after a patch. */
function after(instance: Instance, patch: Parameters<typeof applyJsonPatch>[1]): Instance['spec'] {
  const result = applyJsonPatch(instance, patch)
  return 'value' in result ? (result.value as Instance).spec : expect.fail(result.refused)
}

describe('a slot that is released beside the existing system', () => {
  it('has an empty text without the option', () => {
    const instance = instanceOf({ [FIRST]: 'node-a' })
    const spec = after(instance, releasePatch(instance, FIRST, 'node-a'))
    expect(spec.deviceUsage).toEqual({ [FIRST]: '' })
  })

  it('is left out when its node leaves', () => {
    const instance = instanceOf({ [FIRST]: 'C:cam-0:node-a', [SECOND]: 'node-b' })
    const left = after(
      instance,
      leavePatch(instance, instance.spec.nodes[0] ?? expect.fail(), 'akri-0.13'),
    )
    expect(left).toMatchObject({ nodes: ['node-b'], deviceUsage: { [SECOND]: 'node-b' } })
  })

  it('belongs to an Instance that keeps its form, whatever is released', () => {
    const usage = fc.constantFrom(undefined, '', 'node-a', 'node-b', 'C:cam-0:node-a', 'C:1:node-b')
    fc.assert(
      fc.property(fc.array(usage, { maxLength: 5 }), (usages) => {
        const entries = usages.flatMap((text, index) =>
          text === undefined ? [] : [[slot(index), text] as const],
        )
        const claims = entries.filter(([, text]) => text !== '')
        let instance = instanceOf(Object.fromEntries(entries), usages.length)
        const omits = omitsFreeSlots(instance, 'akri-0.13')
        for (const [name, text] of claims) {
          const spec = after(instance, releasePatch(instance, name, text, 'akri-0.13'))
          instance = { ...instance, spec }
          expect(omitsFreeSlots(instance, 'akri-0.13')).toBe(omits)
        }
        const texts = Object.values(instance.spec.deviceUsage)
        // The empty texts of other programs stay.
        const found = omits ? entries.length - claims.length : usages.length
        expect(texts).toEqual(Array.from({ length: found }, () => ''))
      }),
    )
  })
})

describe('a change of the capacity beside the existing system', () => {
  const resized = (instance: Instance, capacity: number) =>
    after(instance, updatePatch(instance, { capacity, brokerProperties: {} }, 'akri-0.13'))

  it('adds no free slots, and removes empty texts', () => {
    expect(resized(instanceOf({}), 4)).toMatchObject({ capacity: 4, deviceUsage: {} })
    expect(resized(instanceOf({ [FIRST]: '' }), 3)).toMatchObject({ capacity: 3, deviceUsage: {} })
  })

  it('keeps the form of an Instance with a text for each slot', () => {
    expect(resized(instanceOf({ [FIRST]: '', [SECOND]: 'x' }), 3).deviceUsage).toEqual({
      [FIRST]: '',
      [SECOND]: 'x',
      [slot(2)]: '',
    })
  })

  it('leaves no claim beyond the capacity', () => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom('', 'node-a', 'C:cam-0:node-b'), { minLength: 1, maxLength: 6 }),
        fc.integer({ min: 1, max: 8 }),
        (usages, capacity) => {
          const entries = usages.map((text, index) => [slot(index), text] as const)
          const claims = entries.filter(([, text]) => text !== '')
          const instance = instanceOf(Object.fromEntries(claims), usages.length)
          const spec = resized(instance, capacity)
          const needed = claims.map(([name]) => (slotIndex(NAME, name) ?? 0) + 1)
          expect(spec.capacity).toBe(Math.max(capacity, ...needed))
          expect(spec.deviceUsage).toEqual(Object.fromEntries(claims))
        },
      ),
    )
  })

  it('does not wait without the option', () => {
    expect(writableCapacity(instanceOf({ [SECOND]: 'x' }), 1, 'off')).toBe(1)
    expect(writableCapacity(instanceOf({ [SECOND]: 'x' }), 1, 'akri-0.13')).toBe(2)
    expect(writableCapacity(instanceOf({ [slot(8)]: 'x' }), 1, 'akri-0.13')).toBe(2)
  })
})
