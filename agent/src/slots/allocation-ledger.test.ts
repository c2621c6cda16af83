import type { InstanceName, SlotName } from '@akrijs/api'
import { type NodeName, type ObjectKey, objectKey } from '@akrijs/kube/objects'
import { beforeEach, describe, expect, it } from 'vitest'
import type { PodAllocation } from '../kubelet/kubelet.js'
import { podsWith } from '../testing/objects.js'
import { AllocationLedger, type SlotAllocation } from './allocation-ledger.js'

const INSTANCE = 'cam-8120fe' as InstanceName
const NODE = 'node-a' as NodeName
const slot = (index: number) => `${INSTANCE}-${index}` as SlotName
const ofConfiguration = (index: number, id: string): SlotAllocation => ({
  slot: slot(index),
  resourceName: 'akri.sh/cam',
  id,
})
const pod = objectKey('default', 'p')

let users: Map<ObjectKey, number>
let ended: Set<ObjectKey>
let synced: boolean
let ledger: AllocationLedger

beforeEach(() => {
  users = new Map([[pod, 1]])
  ended = new Set()
  synced = true
  const pods = podsWith({ users: () => users, hasEnded: (each) => ended.has(each) })
  ledger = new AllocationLedger({
    node: NODE,
    pods: {
      ...pods,
      get synced() {
        return synced
      },
    },
  })
})

describe('the allocations of containers', () => {
  it.each<[string, () => void]>([
    ['was deleted', () => users.clear()],
    ['has ended', () => ended.add(pod)],
  ])('R90 A2 are not in use after their Pod %s, once all Pods have been seen', (what, end) => {
    ledger.record(ofConfiguration(0, '5'), new Set([pod]))
    end()
    expect([ledger.inUse(), ledger.claimsIn(INSTANCE)]).toEqual([[], {}])
    synced = false
    expect(ledger.inUse()).toHaveLength(what === 'has ended' ? 0 : 1)
    synced = true
    // The Pod of the new allocation is not known yet.
    ledger.record(ofConfiguration(0, '5'))
    expect(ledger.inUse()).toHaveLength(1)
  })

  it('are reported once for each change', () => {
    const changes: string[] = []
    ledger.onChange((each) => changes.push(each), new AbortController().signal)
    for (let round = 0; round < 3; round++) {
      ledger.record(ofConfiguration(0, '7'))
      ledger.record(ofConfiguration(0, '7'), new Set([pod]))
    }
    expect(changes.splice(0)).toEqual([slot(0)])
    ledger.record(ofConfiguration(1, '7'))
    expect(changes.splice(0)).toEqual([slot(0), slot(1)])
    // The id belongs to another slot now.
    ledger.remove(ofConfiguration(0, '7'))
    expect(changes).toEqual([])
    ledger.remove(ofConfiguration(1, '7'))
    expect(ledger.list()).toEqual([])
  })
})

describe('the slot of an id that the kubelet lists', () => {
  const other = objectKey('default', 'q')
  const [A, B] = [ofConfiguration(0, '0'), ofConfiguration(1, '0')]
  const listed = (
    of: ObjectKey,
    ids: readonly string[],
    slots?: ReadonlyMap<string, SlotName>,
  ) => ({
    pod: of,
    ids: new Set(ids),
    ...(slots && { slots }),
  })
  /** The slots of the ids of a resource, as `id slot`. */
  function follow(
    resource: string,
    containers: readonly PodAllocation[],
    more: Partial<Parameters<AllocationLedger['follow']>[1]> = {},
  ): string[] {
    const unresolved = ledger.follow(new Map([[resource, containers]]), {
      claimed: [],
      configurations: new Set(),
      isYounger: () => false,
      ...more,
    })
    const resolved = ledger.list().filter((each) => ledger.usersOf(each) !== undefined)
    return [
      ...resolved.map((each) => `${each.id} ${each.slot.slice(-1)}`),
      ...unresolved.map(({ id }) => `${id} ?`),
    ]
  }

  it('R24 is the id itself if the resource is that of an Instance', () => {
    const ids = [listed(pod, [slot(0), slot(3), 'x'])]
    const expected = [`${slot(0)} 0`, `${slot(3)} 3`, 'x ?']
    expect(follow('example.com/cam-8120fe', ids)).toEqual([])
    // A Configuration has a name like an Instance.
    const configurations = new Set([INSTANCE])
    expect(follow('akri.sh/cam-8120fe', [listed(pod, [slot(0)])], { configurations })).toEqual([
      `${slot(0)} ?`,
    ])
    expect(follow('akri.sh/cam-8120fe', ids)).toEqual(expected)
  })

  it.each<[string, SlotAllocation[], SlotAllocation[], boolean, string]>([
    ['of the container', [B], [A], true, '0 1'],
    ['of a claim', [B], [A], false, '0 0'],
    ['that was known before', [B], [ofConfiguration(0, '1')], false, '0 1'],
    ['of the claim that was known before', [B], [A, B], false, '0 1'],
    ['of the first of two claims', [], [A, B], false, '0 0'],
    ['of no record', [], [], false, '0 ?'],
  ])('R25 R40 R91 of a Configuration is that %s', (_, known, claimed, isAnnotated, expected) => {
    for (const each of known) ledger.record(each)
    const slots = isAnnotated ? new Map([['0', slot(1)]]) : undefined
    expect(follow('akri.sh/cam', [listed(pod, ['0'], slots)], { claimed })).toEqual([expected])
  })

  it('R90 R92 is known for active Pods, and for slots that the answer can tell', () => {
    for (const index of [0, 1, 2]) ledger.record(ofConfiguration(index, String(index)))
    const containers = [listed(pod, ['0']), listed(pod, ['0', '1']), listed(other, ['1', '2'])]
    const isYounger = (which: SlotName) => which === slot(1)
    expect(follow('akri.sh/cam', containers, { isYounger })).toEqual(['0 0'])
    expect(ledger.usersOf(ofConfiguration(0, '0'))).toEqual(new Set([pod]))
    expect(follow('akri.sh/cam', containers)).toEqual(['0 0', '1 1'])
  })
})
