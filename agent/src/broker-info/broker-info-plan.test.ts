import type { Instance, SlotName } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import { applyJsonPatch } from '@akrijs/kube/testing'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { BrokerReports } from '../cluster/cluster.js'
import { BROKER_INFO } from '../limits.js'
import { instanceWith } from '../testing/objects.js'
import { ORPHAN_MS, planBrokerInfo, planOrphans } from './broker-info-plan.js'

const [A, B, C] = ['node-a', 'node-b', 'node-c'] as NodeName[] as [NodeName, NodeName, NodeName]
/** A slot by its index; anything else is the name of no slot. */
const slot = (index: string | number) =>
  (/^\d$/.test(String(index)) ? `cam-8120fe-${index}` : index) as SlotName
const bySlot = <T>(values: Record<string, T>) =>
  Object.entries(values).map(([index, value]) => [slot(index), value] as const)

/** @param entries such as `version=1@0`, the last part being the slot of the writer */
function instance(usage: Record<number, string>, entries = ''): Instance {
  const subject = instanceWith(Object.fromEntries(bySlot(usage)), { nodes: [A, B] })
  const all = entries.split(' ').map((entry) => entry.split(/[=@]/))
  const written = all.filter(([, , writer]) => writer !== undefined)
  const status = {
    brokerInfo: Object.fromEntries(all.map(([name, content]) => [name, content])),
    brokerInfoSlots: Object.fromEntries(
      written.map(([name, , writer = '']) => [name, slot(writer)]),
    ),
  }
  return entries === '' ? subject : { ...subject, status }
}

function entriesOf({ status }: Instance): string[] {
  const slots = new Map(Object.entries(status?.brokerInfoSlots ?? {}))
  const contents = Object.entries(status?.brokerInfo ?? {})
  return contents.map(([name, content]) => {
    const writer = slots.get(name)
    return `${name}=${content}${writer === undefined ? '' : `@${writer.at(-1)}`}`
  })
}

/** @param fresh the names of files that have just been written */
function reports(
  files: Record<number, Record<string, string>>,
  { fresh = [], abandoned = [] }: { fresh?: string[]; abandoned?: (string | number)[] } = {},
): BrokerReports {
  const workloads = bySlot(files).map(([name, own]) => {
    const report = { files: new Map(Object.entries(own)), fresh: new Set(fresh) }
    return [name, report] as const
  })
  return { workloads: new Map(workloads), abandoned: new Set(abandoned.map(slot)) }
}

function after(subject: Instance, node: NodeName, reported: BrokerReports): Instance {
  const applied = applyJsonPatch(subject, planBrokerInfo(subject, node, reported).patch)
  return 'value' in applied ? (applied.value as Instance) : expect.fail(applied.refused)
}

describe('the entries of brokerInfo', () => {
  const free = instance({ 0: '' }, 'a=1@0 b=1@1')
  const shared = { 0: A, 1: B }
  const written = instance(shared, 'a=1@0')
  const again = reports({ 1: { a: '2' } }, { fresh: ['a'] })
  const byHand = instance({ 0: A }, 'note=x a=x')
  const firmware = reports({ 0: { a: '1' } })
  const noSlots = ['__proto__', 'constructor', 'cam']
  const odd = instance({ 0: A }, noSlots.map((name) => `${name}=1@${name}`).join(' '))
  it.each<[string, Instance, NodeName, BrokerReports, string[]]>([
    ['stay while no node has abandoned the slot', free, B, reports({}), ['a=1@0', 'b=1@1']],
    ['vanish with an abandoned slot', free, B, reports({}, { abandoned: [0, 1] }), []],
    ['have the last write of a name', written, B, again, ['a=2@1']],
    ['of others stay, unless a workload writes them', byHand, A, firmware, ['note=x', 'a=1@0']],
    ['may name no slot', odd, A, reports({}, { abandoned: noSlots }), []],
  ])('R69 %s', (_title, subject, node, reported, wanted) => {
    const next = after(subject, node, reported)
    expect(entriesOf(next)).toEqual(wanted)
    expect(planBrokerInfo(next, node, reported).patch).toEqual([])
  })

  it('R69 have a largest number, and existing entries stay', () => {
    const many = (from: number, count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, index) => [`f${from + index}`, 'x']))
    const full = reports({ 0: many(1000, BROKER_INFO.instanceEntries - 1) })
    const first = after(instance(shared), A, full)
    const more = reports({ 1: many(5000, 3) })
    const { leftOut } = planBrokerInfo(first, B, more)
    expect(leftOut.map(({ name }) => name)).toEqual(['f5001', 'f5002'])
    expect(entriesOf(after(first, B, more))).toEqual([...entriesOf(first), 'f5000=x@1'])
  })

  it('R69 have a largest size in all, and an entry that outgrows it is removed', () => {
    const half = 'x'.repeat(BROKER_INFO.instanceBytes / 2)
    const subject = instance({ 0: A }, `a=${half}@0 b=${half}@0`)
    const grown = reports({ 0: { a: half, b: `${half}x` } }, { fresh: ['b'] })
    expect(planBrokerInfo(subject, A, grown).leftOut).toEqual([{ name: 'b', slot: slot(0) }])
    const next = after(subject, A, grown)
    expect(entriesOf(next)).toEqual([`a=${half}@0`])
    // Nothing to do until something changes: two nodes must not write in turns.
    expect(planBrokerInfo(next, A, grown).patch).toEqual([])
  })

  it('R69 equal the files of workloads with slots, and rest, however nodes take turns', () => {
    const names = fc.constantFrom('a', 'b', 'c', 'constructor')
    const files = fc.dictionary(names, fc.constantFrom('1', '2'), { maxKeys: 4 })
    const index = fc.nat({ max: 3 })
    const step = fc.oneof(
      fc.record({ index, files }),
      fc.record({ index, holder: fc.constantFrom(A, B, '') }),
      fc.record({ reporter: fc.constantFrom(A, B) }),
    )
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        const usage = new Map<number, string>()
        const workloads = new Map<number, { files: Map<string, string>; fresh: Set<string> }>()
        let subject = instance({})
        /** @returns whether there was nothing to write */
        const report = (node: NodeName) => {
          const { spec } = instance(Object.fromEntries(usage))
          subject = { ...subject, spec }
          const own = [...workloads].filter(([index]) => usage.get(index) === node)
          const reported = {
            workloads: new Map(own.map(([index, workload]) => [slot(index), workload])),
            abandoned: new Set([0, 1, 2, 3].map(slot)),
          }
          const { patch } = planBrokerInfo(subject, node, reported)
          const [before, next] = [subject, after(subject, node, reported)]
          subject = next
          const rest = entriesOf(next)
          for (const lost of entriesOf(before).filter((entry) => !rest.includes(entry))) {
            const [name = '', , writer = ''] = lost.split(/[=@]/)
            const isOverwritten = own.some(([, { fresh }]) => fresh.has(name))
            if (!isOverwritten) expect([node, '', undefined]).toContain(usage.get(Number(writer)))
          }
          for (const [, { fresh }] of own) fresh.clear()
          return patch.length === 0
        }
        for (const step of steps) {
          if ('reporter' in step) report(step.reporter)
          else if ('holder' in step) {
            usage.set(step.index, step.holder)
            workloads.delete(step.index)
          } else {
            const before = workloads.get(step.index)?.files
            const written = Object.entries(step.files)
            const fresh = written.filter(([name, text]) => before?.get(name) !== text)
            workloads.set(step.index, {
              files: new Map(written),
              fresh: new Set(fresh.map(([name]) => name)),
            })
          }
        }
        for (let round = 0; round < 3; round++) for (const node of [A, B]) report(node)
        expect(report(A) && report(B)).toBe(true)
        const held = [...workloads].filter(([index]) => (usage.get(index) ?? '') !== '')
        const all = held.flatMap(([index, { files }]) =>
          [...files].map(([name, content]) => `${name}=${content}@${index}`),
        )
        expect(all).toEqual(expect.arrayContaining(entriesOf(subject)))
        const nameOf = (entry: string) => entry.split('=')[0]
        expect(new Set(entriesOf(subject).map(nameOf))).toEqual(new Set(all.map(nameOf)))
      }),
      { numRuns: 200 },
    )
  })
})

describe('the plan of orphans', () => {
  const plan = (since: number | undefined, now: number, { node = A, usage = '', own = false }) =>
    planOrphans(
      instance({ 0: usage }, 'state=done@0'),
      new Map(since === undefined ? [] : [[slot(0), since]]),
      { node, now, workloads: new Map(own ? [[slot(0), 'files']] : []) },
    )
  const gone = new Set([slot(0)])

  it.each([
    [A, ORPHAN_MS],
    [B, 2 * ORPHAN_MS],
    [C, Number.POSITIVE_INFINITY],
  ])('leaves entries to the node of the slot, then to the first node: %s', (node, graceMs) => {
    const waiting = { orphans: new Map([[slot(0), 100]]), abandoned: new Set() }
    expect(plan(undefined, 100, { node })).toEqual(waiting)
    expect(plan(100, Math.min(99 + graceMs, 1e9), { node })).toEqual(waiting)
    const over = plan(100, 100 + 2 * ORPHAN_MS, { node })
    expect(over.abandoned).toEqual(node === C ? new Set() : gone)
    expect(plan(Number.NEGATIVE_INFINITY, 0, { node }).abandoned).toEqual(gone)
  })

  it('forgets a slot that is claimed again, and a slot whose workload is still here', () => {
    for (const change of [{ usage: B }, { own: true }])
      expect(plan(0, ORPHAN_MS, change)).toEqual({ orphans: new Map(), abandoned: new Set() })
  })
})
