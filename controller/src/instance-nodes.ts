import {
  type Compatibility,
  heldSlots,
  holderOf,
  type Instance,
  type Membership,
  releasePatch,
  type SlotName,
  sameVersion,
} from '@akrijs/api'
import { type JsonPatch, keyOf, type NodeName, pointer } from '@akrijs/kube'
import type { Collection } from './collection.js'
import { unlessOvertaken } from './unless-overtaken.js'

// How nodes join and leave an Instance: all in one write, as N writes would wake N agents each.

/** What the controller does to an Instance. */
export type InstanceChange =
  | { readonly do: 'nothing' }
  /** No node sees the device or claims a slot any more. */
  | { readonly do: 'delete' }
  /** The patch tests the version that it builds on. */
  | { readonly do: 'patch'; readonly patch: JsonPatch }

/** What nodes want of one Instance. */
export type Wishes = ReadonlyMap<NodeName, Membership>

/** @param isPresent whether the agent of the node is there: other reports are old */
export function planMemberships(
  instance: Instance,
  wishes: Wishes,
  isPresent: (node: NodeName) => boolean,
  compatibility?: Compatibility,
): InstanceChange {
  const { metadata, spec } = instance
  // An agent creates and deletes the Instance of a device that is not shared.
  if (!spec.shared || metadata.deletionTimestamp !== undefined) return { do: 'nothing' }
  const present = new Set(spec.nodes)
  const wanting = (wish: Membership['wish']) =>
    [...wishes].flatMap(([node, wanted]) =>
      wanted.uid === metadata.uid && wanted.wish === wish && isPresent(node) ? node : [],
    )
  const joining = wanting('join').filter((node) => !present.has(node))
  const leaving = new Set(wanting('leave').filter((node) => present.has(node)))
  return joining.length + leaving.size === 0
    ? { do: 'nothing' }
    : change(instance, joining.sort(), leaving, leaving, compatibility)
}

/** @param isUsed whether Pods of the node may still use the device: their slots stay claimed */
export function planDeparture(
  instance: Instance,
  node: NodeName,
  isUsed: boolean,
  compatibility?: Compatibility,
): InstanceChange {
  const leaving = new Set([node])
  return change(instance, [], leaving, isUsed ? new Set() : leaving, compatibility)
}

/** @param releasing the nodes whose slots are released */
function change(
  instance: Instance,
  joining: readonly NodeName[],
  leaving: ReadonlySet<NodeName>,
  releasing: ReadonlySet<string>,
  compatibility?: Compatibility,
): InstanceChange {
  const { deviceUsage, nodes: before } = instance.spec
  const nodes = [...before.filter((node) => !leaving.has(node)), ...joining]
  const released = Object.entries(deviceUsage).filter(([, usage]) =>
    releasing.has(holderOf(usage) ?? ''),
  )
  if (nodes.length === 0 && heldSlots(deviceUsage) === released.length) return { do: 'delete' }
  const patch: JsonPatch[number][] = released.flatMap(([slot, usage]) =>
    releasePatch(instance, slot as SlotName, usage, compatibility),
  )
  if (nodes.length !== before.length || joining.length > 0)
    patch.unshift({ op: 'replace', path: pointer('spec', 'nodes'), value: nodes })
  return patch.length === 0
    ? { do: 'nothing' }
    : { do: 'patch', patch: [sameVersion(instance), ...patch] }
}

/**
 * Carries out a change. A node that joins, or claims a slot, at the same moment wins: its write
 * changes the version.
 * @returns whether the Instance was changed
 */
export async function changeInstance(
  { cache, api }: Collection<Instance>,
  instance: Instance,
  change: InstanceChange,
  signal: AbortSignal,
): Promise<boolean> {
  if (change.do === 'nothing') return false
  return unlessOvertaken(api, instance, signal, async () => {
    if (change.do === 'patch')
      cache.observe(await api.patch(keyOf(instance), 'json', change.patch, { signal }))
    else {
      const { uid, resourceVersion } = instance.metadata
      const options = { propagationPolicy: 'Background', signal } as const
      await api.delete(keyOf(instance), { uid, resourceVersion }, options)
    }
  })
}
