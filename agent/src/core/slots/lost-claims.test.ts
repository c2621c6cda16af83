import type { SlotName } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { instanceWith } from '../../testing/objects.js'
import type { SlotAllocation } from './allocation-ledger.js'
import { lostClaims } from './lost-claims.js'

const NODE = 'node-a' as NodeName
const slot = (index: number) => `cam-8120fe-${index}` as SlotName
const given: SlotAllocation = { slot: slot(0), resourceName: 'akri.sh/cam', id: '7' }

describe('what an Instance has lost of what containers have', () => {
  it('R84 is what it says to be free, or leaves out', () => {
    const claim = { given, key: 'default/cam-8120fe', usage: 'C:7:node-a', takenBy: undefined }
    expect(lostClaims([given], [instanceWith({ [slot(0)]: '' })], NODE)).toEqual([claim])
    expect(lostClaims([given], [instanceWith({})], NODE)).toEqual([claim])
    expect(lostClaims([given], [instanceWith({}, { capacity: 0 })], NODE)).toEqual([claim])
    expect(lostClaims([given], [instanceWith({ [slot(0)]: 'C:7:node-a' })], NODE)).toEqual([])
  })

  it('R7 is what it says to be of somebody else, of another container of this node too', () => {
    const takenBy = (usage: string, ...others: SlotAllocation[]) =>
      lostClaims([given, ...others], [instanceWith({ [slot(0)]: usage })], NODE).map(
        (one) => one.takenBy,
      )
    expect(takenBy('node-b')).toEqual(['node-b'])
    expect(
      takenBy('node-a', { slot: slot(0), resourceName: 'akri.sh/cam-8120fe', id: slot(0) }),
    ).toEqual(['node-a'])
    // No container of this node has it so: that claim is about to go.
    expect(takenBy('node-a')).toEqual([])
  })

  it('is nothing where this node is not in the Instance, or the Instance on its way out', () => {
    expect(
      lostClaims([given], [instanceWith({}, { nodes: ['node-b' as NodeName] })], NODE),
    ).toEqual([])
    expect(
      lostClaims(
        [given],
        [instanceWith({}, {}, { deletionTimestamp: '2026-01-01T00:00:00Z' })],
        NODE,
      ),
    ).toEqual([])
    expect(lostClaims([given], [], NODE)).toEqual([])
  })

  it('is nothing where the Instance of that name of another namespace says it', () => {
    const other = instanceWith({ [slot(0)]: 'C:7:node-a' }, {}, { namespace: 'other' })
    expect(lostClaims([given], [instanceWith({}), other], NODE)).toEqual([])
  })

  it('R7 R84 is claimed without taking anything from anybody, until the Instance says all that it can', () => {
    const usage = fc.constantFrom('', 'node-a', 'node-b', 'C:0:node-a', 'C:1:node-b', 'C:x')
    const one = fc
      .nat({ max: 4 })
      .chain((at) =>
        fc.constantFrom<SlotAllocation>(
          { slot: slot(at), resourceName: 'akri.sh/cam-8120fe', id: slot(at) },
          { slot: slot(at), resourceName: 'akri.sh/cam', id: '0' },
        ),
      )
    fc.assert(
      fc.property(fc.array(usage, { maxLength: 4 }), fc.array(one), (usages, all) => {
        const before: Record<string, string> = Object.fromEntries(
          usages.map((value, index) => [slot(index), value]),
        )
        const now: Record<string, string> = { ...before }
        for (let step = 0; ; step++) {
          const [next] = lostClaims(all, [instanceWith(now)], NODE).filter(
            ({ takenBy }) => takenBy === undefined,
          )
          if (next === undefined) break
          expect(now[next.given.slot] ?? '').toBe('')
          now[next.given.slot] = next.usage
          expect(step).toBeLessThan(5)
        }
        for (const [at, value] of Object.entries(before))
          if (value !== '') expect(now[at]).toBe(value)
        for (const { slot: at } of all) expect(now[at] ?? '').not.toBe('')
      }),
    )
  })
})
