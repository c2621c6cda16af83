import {
  type Configuration,
  GROUP,
  holderOf,
  type Instance,
  type InstanceName,
  parseSlotUsage,
  possibleOwner,
  type SlotName,
  slotIndex,
} from '@akrijs/api'
import { keyOf, type NodeName, type ObjectKey } from '@akrijs/kube/objects'
import type { Allocations } from '../kubelet/kubelet.js'
import type { SlotAllocation } from './allocation-ledger.js'
import type { NodeSlot } from './reclaim-plan.js'

/** An id that a container uses, and whose slot no record tells. */
export type UnresolvedId = Omit<SlotAllocation, 'slot'>

interface AllocatedSlots {
  readonly resolved: readonly {
    readonly allocation: SlotAllocation
    readonly users: ReadonlySet<ObjectKey>
  }[]
  readonly unresolved: readonly UnresolvedId[]
}

export interface AllocatedSlotsInput {
  readonly allocated: Allocations
  /** What Instances record for this node. */
  readonly claimed: readonly SlotAllocation[]
  readonly configurations: readonly Configuration[]
  /** The slot that the id was last seen to stand for. */
  slotOf(resourceName: string, id: string): SlotName | undefined
  /** Whether the Pod is there and has not ended. */
  isActive(pod: ObjectKey, resourceName: string): boolean
}

/** The slots that a node holds, by the claims in Instances. */
export function claimedSlots(instances: readonly Instance[], node: NodeName): NodeSlot[] {
  return instances.flatMap((instance) =>
    Object.entries(instance.spec.deviceUsage)
      .filter(([, usage]) => holderOf(usage) === node)
      .map(([name, usage]) => {
        const slot = name as SlotName
        const parsed = parseSlotUsage(usage)
        const [resource, id] =
          parsed.level === 'configuration'
            ? [instance.spec.configurationName, parsed.virtualId]
            : [instance.metadata.name, slot]
        const claim = { key: keyOf(instance), usage }
        return { slot, resourceName: `${GROUP}/${resource}`, id, claim }
      }),
  )
}

/**
 * The slots of the ids that the kubelet lists for active Pods. The container's own annotations tell
 * the slot first, then the claims in Instances, then what was known before.
 */
export function allocatedSlots({
  allocated,
  claimed,
  configurations,
  slotOf,
  isActive,
}: AllocatedSlotsInput): AllocatedSlots {
  const claimedAs = new Map<string, SlotName>()
  for (const { resourceName, id, slot } of claimed) {
    // Two slots with one id are an error of another writer. The slot that was known before counts.
    if (!claimedAs.has(`${resourceName} ${id}`) || slotOf(resourceName, id) === slot)
      claimedAs.set(`${resourceName} ${id}`, slot)
  }
  const resolved = new Map<string, { allocation: SlotAllocation; users: Set<ObjectKey> }>()
  const unresolved = new Map<string, UnresolvedId>()
  for (const [resourceName, containers] of allocated) {
    if (!resourceName.startsWith(`${GROUP}/`)) continue
    const name = resourceName.slice(GROUP.length + 1) as InstanceName
    // The ids of an Instance's resource are slots. Another system may give ids of that form to a
    // Configuration's resource.
    const isInstance =
      possibleOwner(name) !== undefined &&
      configurations.every(({ metadata }) => (metadata.name as string) !== name)
    for (const { pod, ids, slots } of containers) {
      if (!isActive(pod, resourceName)) continue
      for (const id of ids) {
        const place = `${resourceName} ${id}`
        const asSlot =
          isInstance && slotIndex(name, id) !== undefined ? (id as SlotName) : undefined
        const slot = slots?.get(id) ?? claimedAs.get(place) ?? slotOf(resourceName, id) ?? asSlot
        if (slot === undefined) {
          unresolved.set(place, { resourceName, id })
          continue
        }
        const allocation = { slot, resourceName, id }
        const users = resolved.get(place)?.users ?? new Set<ObjectKey>()
        resolved.set(place, { allocation, users: users.add(pod) })
      }
    }
  }
  return { resolved: [...resolved.values()], unresolved: [...unresolved.values()] }
}
