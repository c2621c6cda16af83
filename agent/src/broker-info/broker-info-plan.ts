import { holderOf, type Instance, type SlotName } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import type { BrokerReports } from '../cluster/cluster.js'

/** Changes to the `brokerInfo` of an Instance. */
export interface BrokerInfoPlan {
  readonly set: readonly {
    readonly name: string
    readonly content: string
    readonly slot: SlotName
  }[]
  readonly remove: readonly string[]
  /** Files for which the Instance has no room. */
  readonly leftOut: readonly { readonly name: string; readonly slot: SlotName }[]
}

/**
 * Bounds of one Instance: every entry makes the object larger, and each watcher receives the whole
 * object.
 */
export const MAX_INSTANCE_ENTRIES = 128
export const MAX_INSTANCE_BYTES = 65_536

/** The entry of a name in both maps. */
interface Entry {
  readonly content: string | undefined
  /** The slot of the workload; undefined if no workload of akri.js wrote the entry. */
  readonly slot: string | undefined
}

/**
 * Plans `brokerInfo` from the files of a node's workloads. If several workloads have a file of the
 * same name, the last write counts. When that workload is gone, the file of another workload takes
 * its place. Entries of workloads of other nodes stay, and so do entries of other programs.
 */
export function planBrokerInfo(
  { spec: { deviceUsage }, status = {} }: Pick<Instance, 'spec' | 'status'>,
  node: NodeName,
  { workloads, abandoned }: BrokerReports,
): BrokerInfoPlan {
  const holder = (slot: string) => holderOf(entryOf(deviceUsage, slot))
  const before = entriesOf(status)
  const entries = new Map(before)
  for (const [name, { slot }] of before) {
    if (slot === undefined) continue
    const over =
      holder(slot) === node ? !workloads.get(slot as SlotName)?.files.has(name) : isAbandoned(slot)
    if (over) entries.delete(name)
  }

  for (const [slot, { files, fresh }] of workloads) {
    if (holder(slot) !== node) continue
    for (const [name, content] of files) {
      const there = entries.get(name)
      const isOurs = there === undefined || there.slot === undefined || there.slot === slot
      if (isOurs || fresh.has(name)) entries.set(name, { content, slot })
    }
  }

  const leftOut = withinBounds(entries, before)
  const set = [...entries].flatMap(([name, { content, slot }]) => {
    const entryBefore = before.get(name)
    const same =
      entryBefore !== undefined && entryBefore.content === content && entryBefore.slot === slot
    return same || slot === undefined || content === undefined
      ? []
      : [{ name, content, slot: slot as SlotName }]
  })
  return { set, remove: [...before.keys()].filter((name) => !entries.has(name)), leftOut }

  function isAbandoned(slot: string): boolean {
    return (entryOf(deviceUsage, slot) ?? '') === '' && abandoned.has(slot as SlotName)
  }
}

export function isEmpty({ set, remove }: BrokerInfoPlan): boolean {
  return set.length === 0 && remove.length === 0
}

function entriesOf({
  brokerInfo = {},
  brokerInfoSlots = {},
}: NonNullable<Instance['status']>): Map<string, Entry> {
  const names = new Set([...Object.keys(brokerInfo), ...Object.keys(brokerInfoSlots)])
  return new Map(
    [...names].map((name) => [
      name,
      { content: entryOf(brokerInfo, name), slot: entryOf(brokerInfoSlots, name) },
    ]),
  )
}

/**
 * Leaves out new and changed entries for which there is no room. Unchanged entries keep their room.
 */
function withinBounds(
  entries: Map<string, Entry>,
  before: ReadonlyMap<string, Entry>,
): BrokerInfoPlan['leftOut'] {
  const changed: [string, Entry][] = []
  let count = 0
  let bytes = 0
  for (const [name, entry] of entries) {
    if (before.get(name)?.content !== entry.content) changed.push([name, entry])
    else {
      count++
      bytes += sizeOf(entry)
    }
  }
  const leftOut: { name: string; slot: SlotName }[] = []
  for (const [name, entry] of changed) {
    if (count < MAX_INSTANCE_ENTRIES && bytes + sizeOf(entry) <= MAX_INSTANCE_BYTES) {
      count++
      bytes += sizeOf(entry)
      continue
    }
    // The old content is not true any more.
    entries.delete(name)
    leftOut.push({ name, slot: entry.slot as SlotName })
  }
  return leftOut
}

function sizeOf({ content }: Entry): number {
  return Buffer.byteLength(content ?? '')
}

/** Names come from files: a file can have the name of a property of every object. */
export function entryOf(map: Readonly<Record<string, string>>, name: string): string | undefined {
  return Object.hasOwn(map, name) ? map[name] : undefined
}
