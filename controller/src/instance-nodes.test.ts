import { holderOf, type Instance, type Membership } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube'
import { applyJsonPatch } from '@akrijs/kube/testing'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { planMemberships } from './instance-nodes.js'
import { testInstance } from './testing/objects.js'

const UID = 'uid-cam-8120fe'
const join: Membership = { uid: UID, wish: 'join' }
const leave: Membership = { uid: UID, wish: 'leave' }
const wishes = (entries: Readonly<Record<string, Membership>>) =>
  new Map(Object.entries(entries) as [NodeName, Membership][])
const everywhere = () => true

/** The Instance after the change; undefined after a deletion. */
function after(
  instance: Instance,
  wanted: ReturnType<typeof wishes>,
  isPresent: (node: NodeName) => boolean,
): Instance | undefined {
  const change = planMemberships(instance, wanted, isPresent)
  if (change.do === 'delete') return undefined
  if (change.do === 'nothing') return instance
  const result = applyJsonPatch(instance, change.patch)
  return 'value' in result ? (result.value as Instance) : expect.fail(result.refused)
}

describe('the nodes of a shared Instance', () => {
  it('R98 A10 all join and leave in one write, which tests the version that it builds on', () => {
    const plan = planMemberships(
      testInstance(['a', 'b', 'c']),
      wishes({ e: join, d: join, a: leave, b: join, x: leave }),
      everywhere,
    )
    expect(plan).toEqual({
      do: 'patch',
      patch: [
        { op: 'test', path: '/metadata/resourceVersion', value: '1' },
        { op: 'replace', path: '/spec/nodes', value: ['b', 'c', 'd', 'e'] },
      ],
    })
  })

  it('a node that leaves beside the existing system leaves its slots out', () => {
    const held = testInstance(['a', 'b'], { capacity: 2 })
    const deviceUsage = { 'cam-8120fe-0': 'a', 'cam-8120fe-1': 'C:cam-0:b' }
    const used = { ...held, spec: { ...held.spec, deviceUsage } }
    expect(planMemberships(used, wishes({ a: leave }), everywhere, 'akri-0.13')).toMatchObject({
      patch: [
        {},
        { op: 'replace', value: ['b'] },
        { op: 'test', path: '/spec/deviceUsage/cam-8120fe-0', value: 'a' },
        { op: 'remove', path: '/spec/deviceUsage/cam-8120fe-0' },
      ],
    })
  })

  it('R103 a node that leaves releases its slots, and the last node deletes', () => {
    const held = testInstance(['a', 'b'], { capacity: 2 })
    const deviceUsage = { 'cam-8120fe-0': 'a', 'cam-8120fe-1': 'C:0:b' }
    const used = { ...held, spec: { ...held.spec, deviceUsage } }
    expect(after(used, wishes({ a: leave }), everywhere)?.spec).toMatchObject({
      nodes: ['b'],
      deviceUsage: { 'cam-8120fe-0': '', 'cam-8120fe-1': 'C:0:b' },
    })
    expect(planMemberships(used, wishes({ a: leave, b: leave }), everywhere)).toEqual({
      do: 'delete',
    })
    const foreign = { ...held, spec: { ...held.spec, deviceUsage: { 'cam-8120fe-0': 'z' } } }
    expect(after(foreign, wishes({ a: leave, b: leave }), everywhere)?.spec).toMatchObject({
      nodes: [],
      deviceUsage: { 'cam-8120fe-0': 'z' },
    })
  })

  it.each<[string, Instance, Membership]>([
    ['of an earlier Instance of the name', testInstance(['a']), { uid: 'old', wish: 'join' }],
    ['for a device that is not shared', testInstance(['a'], { shared: false }), join],
    [
      'for an Instance that is being deleted',
      {
        ...testInstance(['a']),
        metadata: {
          ...testInstance(['a']).metadata,
          deletionTimestamp: '2026-01-01T00:00:00Z',
        },
      },
      join,
    ],
  ])('a wish %s does nothing', (_, instance, wish) => {
    expect(planMemberships(instance, wishes({ b: wish }), everywhere)).toEqual({ do: 'nothing' })
    expect(
      planMemberships(instance, wishes({ a: { ...wish, wish: 'leave' } }), everywhere),
    ).toEqual({ do: 'nothing' })
  })

  it('R64 a node without its agent neither joins nor leaves by its old report', () => {
    const instance = testInstance(['a', 'b'])
    const isPresent = (node: NodeName) => node === 'b'
    expect(after(instance, wishes({ a: leave, c: join }), isPresent)).toBe(instance)
    expect(after(instance, wishes({ b: leave, c: join }), isPresent)?.spec.nodes).toEqual(['a'])
  })

  it('A10 are after one change as all wishes say, and no other claim changes', () => {
    const names = ['a', 'b', 'c', 'd', 'e', 'f']
    const node = fc.constantFrom(...names)
    const wish = fc.record({
      uid: fc.constantFrom(UID, 'old'),
      wish: fc.constantFrom('join', 'leave'),
    })
    fc.assert(
      fc.property(
        fc.uniqueArray(node),
        fc.dictionary(node, wish as fc.Arbitrary<Membership>),
        fc.array(fc.constantFrom('', ...names, ...names.map((name) => `C:1:${name}`)), {
          minLength: 4,
          maxLength: 4,
        }),
        fc.uniqueArray(node),
        (nodes, wanted, claims, present) => {
          const base = testInstance(nodes, { capacity: 3 })
          const deviceUsage = Object.fromEntries(
            claims.map((claim, index) => [`cam-8120fe-${index}`, claim]),
          )
          const instance = { ...base, spec: { ...base.spec, deviceUsage } }
          const isPresent = (name: string) => present.includes(name)
          const result = after(instance, wishes(wanted), isPresent)
          const current = Object.entries(wanted).filter(
            ([name, { uid }]) => uid === UID && isPresent(name),
          )
          const left = current.flatMap(([name, { wish }]) => (wish === 'leave' ? name : []))
          const stay = nodes.filter((name) => !left.includes(name))
          const joined = current.flatMap(([name, { wish }]) =>
            wish === 'join' && !nodes.includes(name) ? name : [],
          )
          expect(new Set(result?.spec.nodes ?? [])).toEqual(new Set([...stay, ...joined]))
          const gone = nodes.filter((name) => left.includes(name))
          for (const [slot, claim] of Object.entries(deviceUsage)) {
            const holder = holderOf(claim)
            if (holder === undefined || !gone.includes(holder))
              expect(result?.spec.deviceUsage[slot] ?? '').toBe(claim)
            else expect(result?.spec.deviceUsage[slot] ?? '').toBe('')
          }
          // A second look changes nothing.
          if (result !== undefined)
            expect(planMemberships(result, wishes(wanted), isPresent).do).toBe('nothing')
        },
      ),
    )
  })
})
