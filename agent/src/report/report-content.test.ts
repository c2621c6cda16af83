import type { Membership, PodToEnd, ReportedStatus, SlotName, UsedSlot } from '@akrijs/api'
import { type ObjectKey, objectKey } from '@akrijs/kube/objects'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { configurationWith } from '../testing/objects.js'
import { reportContent } from './report-content.js'

function statusWith(message: string): ReportedStatus {
  const conditions = [{ type: 'Ready', status: 'True', reason: 'R', message }] as const
  return { uid: 'u', observedGeneration: 1, devices: 2, conditions }
}

const draft = (statuses: ReadonlyMap<ObjectKey, ReportedStatus>) => ({
  statuses,
  invalid: new Map(),
  memberships: new Map<ObjectKey, Membership>(),
  slots: new Map<ObjectKey, readonly UsedSlot[]>(),
  podsToEnd: new Map<ObjectKey, PodToEnd>(),
  stored: undefined,
  uidOf: () => 'u',
})
const bytes = (content: object) => Buffer.byteLength(JSON.stringify(content))

describe('the content of a report', () => {
  it('has the problem of an invalid Configuration, beside its other conditions', () => {
    const [cam, dog] = [objectKey('a', 'cam'), objectKey('a', 'dog')]
    const statuses = new Map([[cam, statusWith('')]])
    const listening = { type: 'Discovering', status: 'True', reason: 'R', message: '' } as const
    const { conditions, ...before } = statusWith('')
    statuses.set(cam, { ...before, conditions: [listening, ...conditions] })
    const { metadata } = configurationWith({}, { uid: 'u', generation: 7 })
    const problem = 'spec.capacity: too small'
    const invalid = new Map([cam, dog].map((key) => [key, { metadata, problem }]))
    const { configurations, counts } = reportContent({ ...draft(statuses), invalid })
    const ready = { type: 'Ready', status: 'False', reason: 'InvalidConfiguration' }
    const told = { uid: 'u', observedGeneration: 7 }
    expect(configurations).toEqual({
      [cam]: { ...told, devices: 2, conditions: [listening, { ...ready, message: problem }] },
      [dog]: { ...told, devices: 0, conditions: [{ ...ready, message: problem }] },
    })
    expect(counts.ready).toBe(0)
  })

  it('stays in its bound, and a namespace with many Configurations pushes no other out', () => {
    const many = fc.array(fc.string({ maxLength: 200 }), { minLength: 1, maxLength: 60 })
    const few = fc.array(fc.string({ maxLength: 50 }), { maxLength: 4 })
    fc.assert(
      fc.property(many, fc.array(few, { maxLength: 4 }), (flood, others) => {
        const statuses = new Map<ObjectKey, ReportedStatus>()
        for (const [index, message] of flood.entries())
          statuses.set(objectKey('a-flood', `c${index}`), statusWith(message))
        for (const [namespace, messages] of others.entries())
          for (const [index, message] of messages.entries())
            statuses.set(objectKey(`b${namespace}`, `c${index}`), statusWith(message))
        const bounds = { statusBytes: 10_000, memberships: 1 }
        const { configurations, counts } = reportContent(draft(statuses), bounds)
        const kept = Object.keys(configurations)
        // Each entry was counted with its braces.
        expect(bytes(configurations)).toBeLessThanOrEqual(bounds.statusBytes + 2)
        expect(kept.length + (counts.leftOut ?? 0)).toBe(statuses.size)
        // The others have few Configurations: their turns come first.
        const expected = [...statuses.keys()].filter((key) => key.startsWith('b'))
        expect(kept.filter((key) => key.startsWith('b')).sort()).toEqual(expected.sort())
      }),
    )
  })

  it('has the first slots of each Instance, of each namespace in turn', () => {
    const slot = (name: string, index: number) => `${name}-${index}` as SlotName
    const usesOf = (name: string, count: number) =>
      Array.from({ length: count }, (_, index) => ({ slot: slot(name, index), pod: 'x/user' }))
    const slots = new Map([[objectKey('n', 'cam-1'), usesOf('cam-1', 60)]])
    const kept = reportContent({ ...draft(new Map()), slots }).slots ?? {}
    expect(kept).toEqual({ 'n/cam-1': usesOf('cam-1', 50) })
    for (let index = 0; index < 1000; index++) {
      const name = `cam-${index}`
      slots.set(objectKey('flood', name), usesOf(name, 50))
    }
    const flooded = reportContent({ ...draft(new Map()), slots }).slots ?? {}
    expect(flooded).toMatchObject(kept)
    expect(Object.keys(flooded).length).toBeGreaterThan(20)
    expect(bytes(flooded)).toBeLessThan(100_100)
    expect(reportContent(draft(new Map())).slots).toBeUndefined()
  })

  it('has the first memberships and Pods to end up to its bounds, sorted', () => {
    const wish = { uid: 'u', wish: 'join' } as const
    const keys = Array.from({ length: 9 }, (_, index) => objectKey('n', `i${8 - index}`))
    const memberships = new Map(keys.map((key) => [key, wish]))
    const podsToEnd = new Map(keys.map((key) => [key, { uid: 'u', slot: 's' }]))
    const bounds = { memberships: 3, podsToEnd: 2 }
    const content = reportContent({ ...draft(new Map()), memberships, podsToEnd }, bounds)
    expect(Object.keys(content.memberships)).toEqual(['n/i6', 'n/i7', 'n/i8'])
    expect(Object.keys(content.podsToEnd ?? {})).toEqual(['n/i0', 'n/i1'])
    expect(reportContent(draft(new Map())).podsToEnd).toBeUndefined()
  })
})
