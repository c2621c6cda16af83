import { type Instance, isFull, keyOf, type NodeName, type ObjectKey, slotIndex } from '@akrijs/kube'
import { type GivenSlot, usageOf } from './given-slots.js'

/** A slot that a container has, and of which no Instance says so. */
export interface LostClaim {
  readonly given: GivenSlot
  /** The Instance that should say it. */
  readonly key: ObjectKey
  readonly usage: string
  /** Why it cannot be claimed again; undefined where it can. */
  readonly obstacle: ClaimObstacle | undefined
}

export type ClaimObstacle =
  | { readonly reason: 'taken'; readonly by: string }
  /** The slot is beyond the capacity, or as many as that are held already. */
  | { readonly reason: 'no-room' }

/**
 * What the Instances of this node have lost of what its containers have.
 * @param instances all that the cluster has; in those that this node is not in it has nothing to claim
 */
export function lostClaims(given: readonly GivenSlot[], instances: readonly Instance[], node: NodeName): LostClaim[] {
  if (given.length === 0) return []
  const byName = new Map<string, Instance[]>()
  for (const instance of instances) {
    const { metadata, spec } = instance
    if (metadata.deletionTimestamp !== undefined || !spec.nodes.includes(node)) continue
    byName.set(metadata.name, [...(byName.get(metadata.name) ?? []), instance])
  }
  return given.flatMap((one) => {
    // The name of a resource has no namespace. Where two Instances have one name, one that says it is enough.
    const candidates = byName.get(one.slot.slice(0, one.slot.lastIndexOf('-'))) ?? []
    const usage = usageOf(one, node)
    const [instance] = candidates
    if (instance === undefined || candidates.some(({ spec }) => spec.deviceUsage[one.slot] === usage)) return []
    return [{ given: one, key: keyOf(instance), usage, obstacle: obstacleTo(one, instance) }]
  })
}

function obstacleTo({ slot }: GivenSlot, instance: Instance): ClaimObstacle | undefined {
  const by = instance.spec.deviceUsage[slot] ?? ''
  if (by !== '') return { reason: 'taken', by }
  const index = slotIndex(instance.metadata.name, slot)
  return index === undefined || index >= instance.spec.capacity || isFull(instance) ? { reason: 'no-room' } : undefined
}
