import type { InstanceName } from '@akrijs/api'
import { type NodeName, type ObjectKey, objectKey } from '@akrijs/kube/objects'
import { beforeEach, describe, expect, it } from 'vitest'
import type { PodAllocation } from '../kubelet/kubelet.js'
import { podsWith, slot } from '../testing/objects.js'
import { AllocationLedger, type SlotAllocation } from './allocation-ledger.js'

const INSTANCE = 'cam-8120fe' as InstanceName
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
  Object.defineProperty(pods, 'synced', { get: () => synced })
  ledger = new AllocationLedger({ node: 'node-a' as NodeName, pods })
})

describe('the allocations of containers', () => {
  it.each<[string, () => void, left: number]>([
    ['was deleted', () => users.clear(), 1],
    ['has ended', () => ended.add(pod), 0],
  ])('R90 A2 are not in use after their Pod %s, if all Pods have been seen', (_, end, left) => {
    ledger.record(ofConfiguration(0, '5'), new Set([pod]))
    end()
    expect([ledger.inUse(), ledger.claimsIn(INSTANCE)]).toEqual([[], {}])
    synced = false
    expect(ledger.inUse()).toHaveLength(left)
    synced = true
    // The Pod of the new allocation is not known yet.
    ledger.record(ofConfiguration(0, '5'))
    expect(ledger.inUse()).toHaveLength(1)
  })

  it('are reported once for each change', () => {
    const changes: string[] = []
    ledger.onChange((each) => changes.push(each), new AbortController().signal)
    ledger.record(ofConfiguration(0, '7'))
    ledger.record(ofConfiguration(0, '7'), new Set([pod]))
    expect(changes.splice(0)).toEqual([slot(0)])
    ledger.record(ofConfiguration(1, '7'))
    expect(changes.splice(0)).toEqual([slot(0), slot(1)])
    // The id belongs to another slot now.
    ledger.remove(ofConfiguration(0, '7'))
    expect([changes, ledger.list().length]).toEqual([[], 1])
    ledger.remove(ofConfiguration(1, '7'))
    expect([changes, ledger.list()]).toEqual([[slot(1)], []])
  })
})

describe('the slot of an id that the kubelet lists', () => {
  const NOW = 1000
  const [A, B] = [ofConfiguration(0, '0'), ofConfiguration(1, '0')]
  const listed = (ids: string[], more: Partial<PodAllocation> = {}): PodAllocation => ({
    pod,
    ids: new Set(ids),
    ...more,
  })
  /** The slots of the ids of a resource, as `id slot`. */
  function follow(
    resource: string,
    containers: readonly PodAllocation[],
    more: Partial<Parameters<AllocationLedger['follow']>[1]> = {},
  ): string[] {
    const options = { askedAt: NOW, claimed: [], configurations: new Set<string>(), ...more }
    const unresolved = ledger.follow(new Map([[resource, containers]]), options)
    const resolved = ledger.list().filter((each) => each.users !== undefined)
    return [
      ...resolved.map((each) => `${each.id} ${each.slot.slice(-1)}`),
      ...unresolved.map(({ id }) => `${id} ?`),
    ]
  }

  it('R24 is the id itself if the resource is that of an Instance', () => {
    const ids = [listed([slot(0), slot(3), 'x'])]
    expect(follow('example.com/cam-8120fe', ids)).toEqual([])
    // A Configuration has a name like an Instance.
    const configurations = new Set([INSTANCE])
    const unknown = ids.flatMap((each) => [...each.ids].map((id) => `${id} ?`))
    expect(follow('akri.sh/cam-8120fe', ids, { configurations })).toEqual(unknown)
    expect(follow('akri.sh/cam-8120fe', ids)).toEqual([`${slot(0)} 0`, `${slot(3)} 3`, 'x ?'])
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
    const containers = [listed(['0'], isAnnotated ? { slots: new Map([['0', slot(1)]]) } : {})]
    expect(follow('akri.sh/cam', containers, { claimed })).toEqual([expected])
  })

  it('R90 R92 is known for active Pods, and for claims that are older than the question', () => {
    for (const index of [0, 1, 2]) ledger.record(ofConfiguration(index, String(index)))
    ledger.record(ofConfiguration(1, '1'), undefined, NOW)
    const other = { pod: objectKey('default', 'q') }
    const containers = [listed(['0']), listed(['0', '1']), listed(['1', '2'], other)]
    expect(follow('akri.sh/cam', containers)).toEqual(['0 0'])
    expect(ledger.ofSlot(slot(0))).toMatchObject([{ users: new Set([pod]) }])
    expect(follow('akri.sh/cam', containers, { askedAt: NOW + 1 })).toEqual(['0 0', '1 1'])
  })
})
