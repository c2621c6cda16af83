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
import { type NodeName, pointer } from '@akrijs/kube'
import type { InstanceChange } from '../instance-change.js'

/** What the nodes want of one Instance. */
export type Wishes = ReadonlyMap<NodeName, Membership>

/**
 * Adds and removes all nodes of an Instance in one write: N writes would wake N agents each.
 * @param isPresent whether the agent of the node is there: other reports are old
 */
export function planMemberships(
  instance: Instance,
  wishes: Wishes,
  isPresent: (node: NodeName) => boolean,
  compatibility: Compatibility = 'off',
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
  if (joining.length + leaving.size === 0) return { do: 'nothing' }
  const nodes = [...spec.nodes.filter((node) => !leaving.has(node)), ...joining.sort()]
  const released = Object.entries(spec.deviceUsage).filter(([, usage]) => {
    const holder = holderOf(usage)
    return holder !== undefined && leaving.has(holder)
  })
  if (nodes.length === 0 && heldSlots(spec.deviceUsage) === released.length) return { do: 'delete' }
  return {
    do: 'patch',
    patch: [
      sameVersion(instance),
      { op: 'replace', path: pointer('spec', 'nodes'), value: nodes },
      ...released.flatMap(([slot, usage]) =>
        releasePatch(instance, slot as SlotName, usage, compatibility),
      ),
    ],
  }
}
