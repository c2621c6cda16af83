import type { Instance, InstanceSpec, SlotName } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import { applyJsonPatch } from '@akrijs/kube/testing'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { BrokerReports } from '../cluster/cluster.js'
import { brokerInfoPatch } from './broker-info-patch.js'
import {
  isEmpty,
  MAX_INSTANCE_BYTES,
  MAX_INSTANCE_ENTRIES,
  planBrokerInfo,
} from './broker-info-plan.js'

const A = 'node-a' as NodeName
const B = 'node-b' as NodeName
const slot = (index: number) => `cam-8120fe-${index}` as SlotName

type Subject = Pick<Instance, 'spec' | 'status'>

function instance(deviceUsage: Record<string, string>, status?: Instance['status']): Subject {
  const spec = { deviceUsage } as Partial<InstanceSpec> as InstanceSpec
  return status === undefined ? { spec } : { spec, status }
}

/** The files by slot; `fresh` names the files that have just been written. */
function reports(
  files: Record<string, Record<string, string>>,
  fresh: readonly string[] = [],
  abandoned: SlotName[] = [],
): BrokerReports {
  const workloads = Object.entries(files).map(
    ([name, content]) =>
      [
        name as SlotName,
        { files: new Map(Object.entries(content)), fresh: new Set(fresh) },
      ] as const,
  )
  return { workloads: new Map(workloads), abandoned: new Set(abandoned) }
}

function after(subject: Subject, node: NodeName, given: BrokerReports): Subject {
  const whole = { ...subject, metadata: { resourceVersion: '1' } } as Instance
  const patch = brokerInfoPatch(whole, planBrokerInfo(subject, node, given))
  const applied = applyJsonPatch(whole, patch)
  return 'value' in applied ? (applied.value as Subject) : expect.fail(applied.refused)
}

const entries = ({ status }: Subject) => status?.brokerInfo
const owners = ({ status }: Subject) => status?.brokerInfoSlots

describe('the entries of brokerInfo', () => {
  it('R69 equal the files of the workload, and follow them', () => {
    const empty = instance({ [slot(0)]: A })
    const first = after(empty, A, reports({ [slot(0)]: { version: '1', state: 'busy' } }))
    expect(entries(first)).toEqual({ version: '1', state: 'busy' })
    const second = after(first, A, reports({ [slot(0)]: { version: '2' } }, ['version']))
    expect(entries(second)).toEqual({ version: '2' })
    expect(owners(second)).toEqual({ version: slot(0) })
  })

  it('R69 belong to slots that this node claims, and to no others', () => {
    const subject = instance({ [slot(0)]: B, [slot(1)]: '' })
    const wanted = reports({ [slot(0)]: { a: '1' }, [slot(1)]: { b: '1' }, [slot(2)]: { c: '1' } })
    expect(isEmpty(planBrokerInfo(subject, A, wanted))).toBe(true)
  })

  it('R69 stay untouched by a node whose workloads did not write them', () => {
    const subject = instance(
      { [slot(0)]: A, [slot(1)]: B },
      { brokerInfo: { a: '1' }, brokerInfoSlots: { a: slot(1) } },
    )
    expect(isEmpty(planBrokerInfo(subject, A, reports({ [slot(0)]: {} }, [], [slot(1)])))).toBe(
      true,
    )
  })

  it('R69 are removed with the slot of their workload, once it is free and abandoned', () => {
    const subject = instance(
      { [slot(0)]: '' },
      { brokerInfo: { a: '1' }, brokerInfoSlots: { a: slot(0) } },
    )
    expect(isEmpty(planBrokerInfo(subject, B, reports({})))).toBe(true)
    expect(planBrokerInfo(subject, B, reports({}, [], [slot(0)])).remove).toEqual(['a'])
    const beyond = instance({}, subject.status)
    expect(planBrokerInfo(beyond, B, reports({}, [], [slot(0)])).remove).toEqual(['a'])
  })

  it('R69 of a slot that this node claims are removed if its workload has no directory', () => {
    const subject = instance(
      { [slot(0)]: A },
      { brokerInfo: { a: '1' }, brokerInfoSlots: { a: slot(0) } },
    )
    expect(planBrokerInfo(subject, A, reports({})).remove).toEqual(['a'])
  })

  it('R69 have the last write of a name, and the one before after its workload is gone', () => {
    const both = instance({ [slot(0)]: A, [slot(1)]: B })
    const ofA = reports({ [slot(0)]: { version: 'a' } })
    const first = after(both, A, reports({ [slot(0)]: { version: 'a' } }, ['version']))
    const second = after(first, B, reports({ [slot(1)]: { version: 'b' } }, ['version']))
    expect(entries(second)).toEqual({ version: 'b' })
    expect(isEmpty(planBrokerInfo(second, A, ofA))).toBe(true)
    const freed = after(
      { ...second, spec: { ...second.spec, deviceUsage: { [slot(0)]: A, [slot(1)]: '' } } },
      B,
      reports({}, [], [slot(1)]),
    )
    expect(entries(freed)).toEqual({})
    const third = after(freed, A, ofA)
    expect(entries(third)).toEqual({ version: 'a' })
    expect(owners(third)).toEqual({ version: slot(0) })
  })

  it('R69 of an unknown writer stay, unless a workload writes them', () => {
    const subject = instance(
      { [slot(0)]: A },
      { brokerInfo: { note: 'by hand', version: 'by hand' } },
    )
    const next = after(subject, A, reports({ [slot(0)]: { version: '1' } }))
    expect(entries(next)).toEqual({ note: 'by hand', version: '1' })
    expect(owners(next)).toEqual({ version: slot(0) })
  })

  it.each(['constructor', 'toString', 'hasOwnProperty'])('R69 can have the name %s', (name) => {
    const subject = instance({ [slot(0)]: A })
    const next = after(subject, A, reports({ [slot(0)]: { [name]: '1' } }))
    expect(Object.entries(entries(next) ?? {})).toEqual([[name, '1']])
    expect(isEmpty(planBrokerInfo(next, A, reports({ [slot(0)]: { [name]: '1' } })))).toBe(true)
    expect(planBrokerInfo(next, A, reports({})).remove).toEqual([name])
  })

  it('R69 are not confused by a slot name that is no slot', () => {
    for (const odd of ['__proto__', 'constructor', '', 'cam']) {
      const status = { brokerInfo: { a: '1' }, brokerInfoSlots: { a: odd } }
      expect(() =>
        planBrokerInfo(instance({ [slot(0)]: A }, status), A, reports({}, [], [odd as SlotName])),
      ).not.toThrow()
    }
  })

  it('R69 have a largest number, and existing entries stay', () => {
    const many = (from: number, count: number) =>
      Object.fromEntries(
        Array.from({ length: count }, (_, index) => [
          `f${String(from + index).padStart(4, '0')}`,
          'x',
        ]),
      )
    const subject = instance({ [slot(0)]: A, [slot(1)]: B })
    const first = after(subject, A, reports({ [slot(0)]: many(0, MAX_INSTANCE_ENTRIES - 1) }))
    const plan = planBrokerInfo(first, B, reports({ [slot(1)]: many(5000, 3) }))
    expect(plan.set.map(({ name }) => name)).toEqual(['f5000'])
    expect(plan.leftOut.map(({ name }) => name)).toEqual(['f5001', 'f5002'])
    expect(plan.remove).toEqual([])
  })

  it('R69 have a largest size in all, and an entry that outgrows it is removed', () => {
    const half = 'x'.repeat(MAX_INSTANCE_BYTES / 2)
    const subject = after(
      instance({ [slot(0)]: A }),
      A,
      reports({ [slot(0)]: { a: half, b: half } }),
    )
    const grown = reports({ [slot(0)]: { a: half, b: `${half}x` } }, ['b'])
    const plan = planBrokerInfo(subject, A, grown)
    expect(plan).toEqual({ set: [], remove: ['b'], leftOut: [{ name: 'b', slot: slot(0) }] })
    const next = after(subject, A, grown)
    // Nothing to do until something changes: two nodes must not write in turns.
    expect(isEmpty(planBrokerInfo(next, A, grown))).toBe(true)
  })

  it('R69 come to rest, each with a workload or none, however nodes take turns', () => {
    const files = fc.dictionary(
      fc.constantFrom('a', 'b', 'c', 'constructor'),
      fc.constantFrom('1', '2'),
      { maxKeys: 4 },
    )
    const step = fc.oneof(
      fc.record({ do: fc.constant('write' as const), index: fc.nat({ max: 3 }), files }),
      fc.record({
        do: fc.constant('hold' as const),
        index: fc.nat({ max: 3 }),
        by: fc.constantFrom(A, B, ''),
      }),
      fc.record({ do: fc.constant('report' as const), node: fc.constantFrom(A, B) }),
    )
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        const usage = new Map<SlotName, string>()
        const written = new Map<SlotName, Map<string, string>>()
        const fresh = new Map<SlotName, Set<string>>()
        let subject: Subject = instance({})
        const abandoned = new Set([0, 1, 2, 3].map(slot))
        const current = (): Subject => ({
          ...subject,
          spec: { ...subject.spec, deviceUsage: Object.fromEntries(usage) },
        })
        const report = (node: NodeName) => {
          const ownFiles = [...written].filter(([name]) => usage.get(name) === node)
          const workloads = ownFiles.map(
            ([name, content]) =>
              [name, { files: content, fresh: fresh.get(name) ?? new Set<string>() }] as const,
          )
          const given = { workloads: new Map(workloads), abandoned }
          const now = current()
          const plan = planBrokerInfo(now, node, given)
          for (const { slot: of } of plan.set) expect(usage.get(of)).toBe(node)
          for (const name of plan.remove) {
            const owner = Object.hasOwn(now.status?.brokerInfoSlots ?? {}, name)
              ? now.status?.brokerInfoSlots?.[name]
              : undefined
            expect([node, '', undefined]).toContain(usage.get(owner as SlotName))
          }
          subject = after(now, node, given)
          for (const [name] of ownFiles) fresh.delete(name)
          return isEmpty(plan)
        }
        for (const step of steps) {
          if (step.do === 'report') report(step.node)
          else if (step.do === 'hold') {
            usage.set(slot(step.index), step.by)
            written.set(slot(step.index), new Map())
            fresh.delete(slot(step.index))
          } else {
            const content = new Map(Object.entries(step.files))
            const before = written.get(slot(step.index))
            fresh.set(
              slot(step.index),
              new Set(
                [...content]
                  .filter(([name, text]) => before?.get(name) !== text)
                  .map(([name]) => name),
              ),
            )
            written.set(slot(step.index), content)
          }
        }
        for (let round = 0; round < 3; round++) for (const node of [A, B]) report(node)
        expect(report(A) && report(B)).toBe(true)
        const held = [...written].filter(([name]) => (usage.get(name) ?? '') !== '')
        const names = new Set(held.flatMap(([, content]) => [...content.keys()]))
        expect(new Set(Object.keys(entries(subject) ?? {}))).toEqual(names)
        for (const [name, owner] of Object.entries(owners(subject) ?? {})) {
          const content = written.get(owner as SlotName)?.get(name)
          expect(Object.entries(entries(subject) ?? {})).toContainEqual([name, content])
        }
      }),
      { numRuns: 200 },
    )
  })
})
