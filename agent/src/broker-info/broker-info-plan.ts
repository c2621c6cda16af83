import { holderOf, type Instance, type SlotName } from '@akrijs/api'
import { type JsonPatch, type NodeName, pointer } from '@akrijs/kube/objects'
import type { BrokerReports } from '../cluster/cluster.js'
import { BROKER_INFO } from '../limits.js'

/** Changes to the `brokerInfo` of an Instance. */
export interface BrokerInfoPlan {
  /** Empty if nothing changes. */
  readonly patch: JsonPatch
  /** Files for which the Instance has no room. */
  readonly leftOut: readonly { readonly name: string; readonly slot: SlotName }[]
}

/** The entry of a name in both maps. */
interface Entry {
  readonly content: string | undefined
  /** The slot of the workload; empty if no workload of akri.js wrote the entry. */
  readonly slot: SlotName | ''
}

type Entries = ReadonlyMap<string, Entry>

const MAPS = ['brokerInfo', 'brokerInfoSlots'] as const

/**
 * Plans `brokerInfo` from the files of a node's workloads. If several workloads have a file of the
 * same name, the last write counts. When that workload is gone, the file of another workload takes
 * its place. Entries of workloads of other nodes stay, and so do entries of other programs.
 */
export function planBrokerInfo(
  instance: Instance,
  node: NodeName,
  { workloads, abandoned }: BrokerReports,
): BrokerInfoPlan {
  const usage = (slot: string) => entryOf(instance.spec.deviceUsage, slot)
  const isHere = (slot: string) => holderOf(usage(slot)) === node
  const before = entriesOf(instance)
  const entries = new Map(before)
  for (const [name, { slot }] of before) {
    if (slot === '') continue
    const isOver = isHere(slot)
      ? !workloads.get(slot)?.files.has(name)
      : (usage(slot) ?? '') === '' && abandoned.has(slot)
    if (isOver) entries.delete(name)
  }
  for (const [slot, { files, fresh }] of workloads) {
    if (!isHere(slot)) continue
    for (const [name, content] of files) {
      const { slot: owner, content: old } = entries.get(name) ?? { slot: '' }
      const mayWrite = owner === '' || owner === slot || fresh.has(name)
      if (mayWrite && (owner !== slot || old !== content)) entries.set(name, { content, slot })
    }
  }
  const leftOut = leaveOut(entries, before)
  return { patch: patchOf(instance, before, entries), leftOut }
}

/**
 * Removes new and changed entries for which there is no room, as their old content is not true any
 * more. Unchanged entries keep their room.
 */
function leaveOut(entries: Map<string, Entry>, before: Entries): BrokerInfoPlan['leftOut'] {
  const leftOut: { name: string; slot: SlotName }[] = []
  const isChanged = ([name, entry]: [string, Entry]) => before.get(name) !== entry
  const unchanged = [...entries].filter((entry) => !isChanged(entry))
  let count = unchanged.length
  let bytes = unchanged.reduce((sum, [, entry]) => sum + sizeOf(entry), 0)
  for (const [name, entry] of [...entries].filter(isChanged)) {
    if (count < BROKER_INFO.instanceEntries && bytes + sizeOf(entry) <= BROKER_INFO.instanceBytes) {
      count++
      bytes += sizeOf(entry)
    } else {
      entries.delete(name)
      leftOut.push({ name, slot: entry.slot as SlotName })
    }
  }
  return leftOut
}

/** The API server refuses it if an entry has another writer by now, or a writer lost its slot. */
function patchOf(
  { spec, status, metadata }: Instance,
  before: Entries,
  entries: Entries,
): JsonPatch {
  const written = [...entries].filter(([name, entry]) => before.get(name) !== entry)
  const removed = [...before.keys()].filter((name) => !entries.has(name))
  if (written.length + removed.length === 0) return []
  const held = [...new Set(written.map(([, { slot }]) => slot))].map((slot) =>
    test(pointer('spec', 'deviceUsage', slot), spec.deviceUsage[slot]),
  )
  const owned = [...written.map(([name]) => name), ...removed]
    .filter((name) => (before.get(name)?.slot ?? '') !== '')
    .map((name) => test(pointer('status', 'brokerInfoSlots', name), before.get(name)?.slot))
  const missing = [
    ...(status === undefined ? [add(pointer('status'), {})] : []),
    ...MAPS.filter((map) => status?.[map] === undefined).map((map) =>
      add(pointer('status', map), {}),
    ),
  ]
  // An absent value cannot be tested by its path.
  const unchanged =
    missing.length === 0
      ? []
      : [test(pointer('metadata', 'resourceVersion'), metadata.resourceVersion)]
  const set = written.flatMap(([name, { content, slot }]) => [
    add(pointer('status', 'brokerInfo', name), content),
    add(pointer('status', 'brokerInfoSlots', name), slot),
  ])
  const remove = removed.flatMap((name) =>
    MAPS.filter((map) => Object.hasOwn(status?.[map] ?? {}, name)).map(
      (map) => ({ op: 'remove', path: pointer('status', map, name) }) as const,
    ),
  )
  return [...unchanged, ...held, ...owned, ...missing, ...set, ...remove]
}

function test(path: string, value: unknown) {
  return { op: 'test', path, value } as const
}

function add(path: string, value: unknown) {
  return { op: 'add', path, value } as const
}

function entriesOf({ status }: Instance): Entries {
  const { brokerInfo = {}, brokerInfoSlots = {} } = status ?? {}
  const names = new Set([...Object.keys(brokerInfo), ...Object.keys(brokerInfoSlots)])
  const entryAt = (name: string): Entry => ({
    content: entryOf(brokerInfo, name),
    slot: (entryOf(brokerInfoSlots, name) ?? '') as Entry['slot'],
  })
  return new Map([...names].map((name) => [name, entryAt(name)]))
}

function sizeOf({ content }: Entry): number {
  return Buffer.byteLength(content ?? '')
}

/**
 * Entries of free slots are left to the node that had the slot so long, in milliseconds, and as
 * long again to each further node.
 */
export const ORPHAN_MS = 5000

/** Since when a slot with entries is free; -Infinity if this node had the slot. */
export type Orphans = Map<SlotName, number>

interface OrphanPlan {
  readonly orphans: Orphans
  /** The slots whose entries this node removes: it had the slot, or the other nodes did not. */
  readonly abandoned: ReadonlySet<SlotName>
  /** When the next slot is abandoned, in milliseconds; Infinity if none is. */
  readonly recheckInMs: number
}

/**
 * Decides which entries this node removes although it has no claim on the slot: a node may be lost
 * before it removes its own.
 * @param hasDirectory whether a workload of this node still has the slot
 */
export function planOrphans(
  { spec, status }: Pick<Instance, 'spec' | 'status'>,
  before: Orphans,
  {
    node,
    now,
    hasDirectory,
  }: { node: NodeName; now: number; hasDirectory(slot: SlotName): boolean },
): OrphanPlan {
  const orphans: Orphans = new Map()
  const abandoned = new Set<SlotName>()
  let recheckInMs = Number.POSITIVE_INFINITY
  const index = spec.nodes.indexOf(node)
  // A node that is not in the Instance has no turn.
  const turnMs = index < 0 ? Number.POSITIVE_INFINITY : ORPHAN_MS * (1 + index)
  for (const slot of Object.values(status?.brokerInfoSlots ?? {}) as SlotName[]) {
    if ((entryOf(spec.deviceUsage, slot) ?? '') !== '' || hasDirectory(slot)) continue
    const since = before.get(slot) ?? now
    orphans.set(slot, since)
    if (now - since >= turnMs) abandoned.add(slot)
    else recheckInMs = Math.min(recheckInMs, since + turnMs - now)
  }
  return { orphans, abandoned, recheckInMs }
}

/** Names come from files: a file can have the name of a property of every object. */
export function entryOf(map: Readonly<Record<string, string>>, name: string): string | undefined {
  return Object.hasOwn(map, name) ? map[name] : undefined
}
