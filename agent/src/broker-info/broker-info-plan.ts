import { holderOf, type Instance, type SlotName } from '@akrijs/api'
import { type JsonPatch, type NodeName, pointer } from '@akrijs/kube/objects'
import type { BrokerReports } from '../cluster/cluster.js'
import { BROKER_INFO } from '../limits.js'

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
 * @returns `leftOut`: the files for which the Instance has no room
 */
export function planBrokerInfo(
  instance: Instance,
  node: NodeName,
  { workloads, abandoned }: BrokerReports,
) {
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
function leaveOut(entries: Map<string, Entry>, before: Entries) {
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
function patchOf({ spec, status, metadata }: Instance, before: Entries, after: Entries): JsonPatch {
  const written = [...after].filter(([name, entry]) => before.get(name) !== entry)
  const removed = [...before].filter(([name]) => !after.has(name))
  if (written.length + removed.length === 0) return []
  const missing = MAPS.filter((map) => status?.[map] === undefined)
  const patch: JsonPatch[number][] = []
  const put = (op: 'test' | 'add', value: unknown, ...names: readonly string[]) =>
    patch.push({ op, path: pointer(...names), value })
  // An absent value cannot be tested by its path.
  if (missing.length > 0) put('test', metadata.resourceVersion, 'metadata', 'resourceVersion')
  for (const slot of new Set(written.map(([, entry]) => entry.slot)))
    put('test', spec.deviceUsage[slot], 'spec', 'deviceUsage', slot)
  for (const [name] of [...written, ...removed]) {
    const owner = before.get(name)?.slot ?? ''
    if (owner !== '') put('test', owner, 'status', 'brokerInfoSlots', name)
  }
  if (status === undefined) put('add', {}, 'status')
  for (const map of missing) put('add', {}, 'status', map)
  for (const [name, { content, slot }] of written) {
    put('add', content, 'status', 'brokerInfo', name)
    put('add', slot, 'status', 'brokerInfoSlots', name)
  }
  for (const [name] of removed)
    for (const map of MAPS)
      if (Object.hasOwn(status?.[map] ?? {}, name))
        patch.push({ op: 'remove', path: pointer('status', map, name) })
  return patch
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

/**
 * Decides which entries this node removes although it has no claim on the slot: a node may be lost
 * before it removes its own. A node that is not in the Instance has no turn.
 * @returns `abandoned`: the slots that this node had, or whose entries other nodes have left
 */
export function planOrphans(
  { spec, status }: Pick<Instance, 'spec' | 'status'>,
  before: Orphans,
  own: { node: NodeName; now: number; workloads: ReadonlyMap<SlotName, unknown> },
): { readonly orphans: Orphans; readonly abandoned: ReadonlySet<SlotName> } {
  const isFree = (slot: SlotName) => (entryOf(spec.deviceUsage, slot) ?? '') === ''
  const slots = (Object.values(status?.brokerInfoSlots ?? {}) as SlotName[]).filter(
    (slot) => isFree(slot) && !own.workloads.has(slot),
  )
  const orphans = new Map(slots.map((slot) => [slot, before.get(slot) ?? own.now]))
  const turn = spec.nodes.indexOf(own.node) + 1
  const turnMs = turn === 0 ? Number.POSITIVE_INFINITY : ORPHAN_MS * turn
  const abandoned = [...orphans].filter(([, since]) => own.now - since >= turnMs)
  return { orphans, abandoned: new Set(abandoned.map(([slot]) => slot)) }
}

/** Names come from files: a file can have the name of a property of every object. */
export function entryOf(map: Readonly<Record<string, string>>, name: string): string | undefined {
  return Object.hasOwn(map, name) ? map[name] : undefined
}
