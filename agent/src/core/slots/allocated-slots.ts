import { type Configuration, GROUP, type InstanceName, type SlotName, slotIndex } from '@akrijs/api'
import type { ObjectKey } from '@akrijs/kube/objects'
import type { Allocations } from '../../ports/kubelet.js'
import type { SlotAllocation } from './allocation-ledger.js'
import type { UnresolvedId } from './claim-reporter.js'

export interface AllocatedSlots {
  readonly known: readonly {
    readonly given: SlotAllocation
    readonly users: ReadonlySet<ObjectKey>
  }[]
  readonly unknown: readonly UnresolvedId[]
}

export interface AllocatedSlotsInput {
  readonly allocated: Allocations
  /** What Instances say that this node holds. */
  readonly held: readonly SlotAllocation[]
  readonly configurations: readonly Configuration[]
  /** What an id was last known to stand for. */
  slotOf(resourceName: string, id: string): SlotName | undefined
  /** Whether the Pod is there and has not ended. */
  isThere(pod: ObjectKey, resourceName: string): boolean
}

/** The ids of Instances' resources are slots; those of a Configuration may look like it where another system named them. */
const INSTANCE_NAME = /-[0-9a-f]{6}$/

/**
 * Which slots stand behind the ids that the kubelet lists for Pods that are there. The containers may say it themselves; else it is
 * what the Instances say, and where these have lost it, what was known before.
 */
export function allocatedSlots({
  allocated,
  held,
  configurations,
  slotOf,
  isThere,
}: AllocatedSlotsInput): AllocatedSlots {
  const heldAs = new Map<string, SlotName>()
  for (const { resourceName, id, slot } of held) {
    // Of two with one id, which nobody should have written, the one that was known before.
    if (!heldAs.has(`${resourceName} ${id}`) || slotOf(resourceName, id) === slot)
      heldAs.set(`${resourceName} ${id}`, slot)
  }
  const known = new Map<string, { given: SlotAllocation; users: Set<ObjectKey> }>()
  const unknown = new Map<string, UnresolvedId>()
  for (const [resourceName, containers] of allocated) {
    if (!resourceName.startsWith(`${GROUP}/`)) continue
    const name = resourceName.slice(GROUP.length + 1) as InstanceName
    const isInstance =
      INSTANCE_NAME.test(name) &&
      configurations.every(({ metadata }) => (metadata.name as string) !== name)
    for (const { pod, ids, slots } of containers) {
      if (!isThere(pod, resourceName)) continue
      for (const id of ids) {
        const place = `${resourceName} ${id}`
        const own = isInstance && slotIndex(name, id) !== undefined ? (id as SlotName) : undefined
        const slot = slots?.get(id) ?? heldAs.get(place) ?? slotOf(resourceName, id) ?? own
        if (slot === undefined) {
          unknown.set(place, { resourceName, id })
          continue
        }
        const one = known.get(place) ?? {
          given: { slot, resourceName, id },
          users: new Set<ObjectKey>(),
        }
        known.set(place, { ...one, users: one.users.add(pod) })
      }
    }
  }
  return { known: [...known.values()], unknown: [...unknown.values()] }
}
