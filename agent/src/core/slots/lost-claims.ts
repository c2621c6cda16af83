import { holderOf, type Instance } from '@akrijs/api'
import { keyOf, type NodeName, type ObjectKey } from '@akrijs/kube/objects'
import { instanceOf, type SlotAllocation, usageOf } from './allocation-ledger.js'

/** A slot that a container has, and of which no Instance says so. */
export interface LostClaim {
  readonly given: SlotAllocation
  /** The Instance that should say it. */
  readonly key: ObjectKey
  readonly usage: string
  /** Who is said to have it instead; undefined where nobody is, and so it can be claimed again. */
  readonly takenBy: string | undefined
}

/**
 * What the Instances of this node have lost of what its containers have.
 * @param used what containers have
 * @param instances all that the cluster has; in those that this node is not in it has nothing to claim
 */
export function lostClaims(
  used: readonly SlotAllocation[],
  instances: readonly Instance[],
  node: NodeName,
): LostClaim[] {
  if (used.length === 0) return []
  const byName = new Map<string, Instance[]>()
  for (const instance of instances) {
    const { metadata, spec } = instance
    if (metadata.deletionTimestamp !== undefined || !spec.nodes.includes(node)) continue
    byName.set(metadata.name, [...(byName.get(metadata.name) ?? []), instance])
  }
  const truths = new Set(used.map((one) => `${one.slot} ${usageOf(one, node)}`))
  return used.flatMap((given) => {
    // The name of a resource has no namespace. Where two Instances have one name, one that says it is enough.
    const candidates = byName.get(instanceOf(given.slot)) ?? []
    const usage = usageOf(given, node)
    const [instance] = candidates
    if (
      instance === undefined ||
      candidates.some(({ spec }) => spec.deviceUsage[given.slot] === usage)
    )
      return []
    const by = instance.spec.deviceUsage[given.slot] ?? ''
    // A claim of ours that nobody needs is about to be taken back.
    if (holderOf(by) === node && !truths.has(`${given.slot} ${by}`)) return []
    return [{ given, key: keyOf(instance), usage, takenBy: by === '' ? undefined : by }]
  })
}
