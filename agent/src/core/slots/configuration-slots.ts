import type { InstanceName, SlotName, SlotUsage } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import { type PreferenceRequest, slotsInClaimOrder, spareSlots } from './offer.js'

// The ids of a Configuration's resource are virtual: Allocate decides which slot an id stands for.
// The advertised ids, the preference and Allocate are all computed here, from the same slots and
// claims, so they cannot disagree.

/** The slots of one Instance of the Configuration, as this node sees them. */
export interface InstanceSlots {
  readonly instance: InstanceName
  /** Whether the device can be allocated now. */
  readonly healthy: boolean
  /** All nodes of the Instance, in the same order on each node. */
  readonly nodes: readonly NodeName[]
  readonly slots: ReadonlyMap<SlotName, SlotUsage>
  /** The number of claimed slots beyond the capacity: as many free slots wait. */
  readonly heldOverCapacity: number
}

/** The slot that an id stands for. */
export interface ChosenSlot {
  readonly id: string
  readonly instance: InstanceName
  readonly slot: SlotName
  /** Whether this node has claimed the slot for this id already. */
  readonly claimed: boolean
}

type SlotChoice =
  /** The slots of each container, in the order of its ids. */
  | { readonly ok: true; readonly containers: readonly (readonly ChosenSlot[])[] }
  | { readonly ok: false; readonly reason: string }

/** The form of an id that no slot has been claimed for. */
const PLACEHOLDER = /^(0|[1-9][0-9]{0,8})$/

/**
 * The ids to advertise: each id that this node has claimed, and an id for each Instance with a free
 * slot. Unclaimed ids are the smallest unused numbers. A claimed id is unhealthy while its device
 * cannot be allocated.
 */
export function advertisedIds(
  instances: readonly InstanceSlots[],
  node: NodeName,
): { id: string; healthy: boolean }[] {
  const claims = claimsOf(instances, node)
  const ids = [...claims].map(([id, { owner }]) => ({ id, healthy: owner.healthy }))
  const free = instances.filter((instance) => freeSlots(instance).length > 0).length
  for (let number = 0, added = 0; added < free; number++) {
    if (claims.has(String(number))) continue
    ids.push({ id: String(number), healthy: true })
    added++
  }
  return ids.sort((a, b) => compareIds(a.id, b.id))
}

/**
 * Chooses a slot for each id. A claimed id keeps its slot. Any other id gets a slot of the Instance
 * with the most free slots, in the order of {@link slotsInClaimOrder}. All slots of a container
 * belong to different Instances; if that is not possible for a container, the whole request is
 * refused.
 */
export function chooseSlots(
  instances: readonly InstanceSlots[],
  node: NodeName,
  requests: readonly (readonly string[])[],
): SlotChoice {
  const claims = claimsOf(instances, node)
  const free = new Map(instances.map((each) => [each.instance, freeInClaimOrder(each, node)]))
  const freeCount = (instance: InstanceName) => free.get(instance)?.length ?? 0
  // An id of several containers stands for the same slot in each of them.
  const chosen = new Map<string, ChosenSlot>()
  const containers: ChosenSlot[][] = []
  for (const ids of requests) {
    if (new Set(ids).size < ids.length)
      return { ok: false, reason: `ids ${shown(ids)} of one container are not all different` }
    const idByInstance = new Map<InstanceName, string>()
    const fixed = new Map<string, ChosenSlot>()
    for (const id of ids) {
      const claim = claims.get(id)
      const slot =
        chosen.get(id) ??
        (claim && { id, instance: claim.owner.instance, slot: claim.slot, claimed: true })
      if (slot === undefined) {
        if (!PLACEHOLDER.test(id))
          return { ok: false, reason: `${shown([id])} is not an id of this resource` }
        continue
      }
      if (claim?.owner.healthy === false)
        return { ok: false, reason: `the device of ${slot.instance} is not available now` }
      const other = idByInstance.get(slot.instance)
      if (other !== undefined)
        return {
          ok: false,
          reason:
            `ids ${other} and ${id} both stand for Instance ${slot.instance}, and a container ` +
            'uses each device once',
        }
      idByInstance.set(slot.instance, id)
      fixed.set(id, slot)
    }
    const candidates = instances
      .map(({ instance }) => instance)
      .filter((instance) => !idByInstance.has(instance) && freeCount(instance) > 0)
      .sort((a, b) => freeCount(b) - freeCount(a) || (a < b ? -1 : 1))
    const available = fixed.size + candidates.length
    if (available < ids.length)
      return {
        ok: false,
        reason: `${ids.length} different devices are requested, and ${available} are available`,
      }
    const container = ids.flatMap((id): ChosenSlot | [] => {
      const fixedSlot = fixed.get(id)
      if (fixedSlot !== undefined) return fixedSlot
      const instance = candidates.shift()
      const slot = instance && free.get(instance)?.shift()
      return instance && slot ? { id, instance, slot, claimed: false } : []
    })
    for (const slot of container) chosen.set(slot.id, slot)
    containers.push(container)
  }
  return { ok: true, containers }
}

/**
 * The ids that the kubelet should choose, so that all of them stand for different Instances: first
 * those that it must include, then claimed ids that no container uses, then unclaimed ids. In
 * another order a claim without a container would stay with this node, and the new claim could be
 * the last slot for another node. If different Instances are not available, the result is shorter:
 * the kubelet adds other ids, and Allocate refuses them.
 */
export function preferredIds(
  instances: readonly InstanceSlots[],
  node: NodeName,
  request: PreferenceRequest,
): string[] {
  const preferred = [...request.mustInclude]
  const claims = claimsOf(instances, node)
  const candidates = request.available
    .filter((id) => !preferred.includes(id))
    .sort((a, b) => Number(claims.has(b)) - Number(claims.has(a)) || compareIds(a, b))
  for (const id of candidates) {
    if (preferred.length >= request.size) break
    if (chooseSlots(instances, node, [[...preferred, id]]).ok) preferred.push(id)
  }
  return preferred
}

interface Claim {
  readonly owner: InstanceSlots
  readonly slot: SlotName
}

/** The slots that this node has claimed through the Configuration, by id. */
function claimsOf(instances: readonly InstanceSlots[], node: NodeName): Map<string, Claim> {
  const claims = new Map<string, Claim>()
  for (const owner of instances) {
    for (const [slot, usage] of owner.slots) {
      // Two slots with one id are an error of another writer. The first slot counts.
      if (usage.level === 'configuration' && usage.node === node && !claims.has(usage.virtualId))
        claims.set(usage.virtualId, { owner, slot })
    }
  }
  return claims
}

function freeInClaimOrder(owner: InstanceSlots, node: NodeName): SlotName[] {
  const free = new Set(freeSlots(owner))
  return slotsInClaimOrder(owner.slots, { node, nodes: owner.nodes }).flatMap(([slot]) =>
    free.has(slot) ? slot : [],
  )
}

function freeSlots({ healthy, slots, heldOverCapacity }: InstanceSlots): SlotName[] {
  return healthy ? spareSlots(slots, heldOverCapacity) : []
}

/** Numbers in their order, then ids of another system. */
function compareIds(a: string, b: string): number {
  const [isA, isB] = [PLACEHOLDER.test(a), PLACEHOLDER.test(b)]
  if (isA && isB) return Number(a) - Number(b)
  if (isA !== isB) return isA ? -1 : 1
  return a < b ? -1 : 1
}

function shown(ids: readonly string[]): string {
  return JSON.stringify(ids.map((id) => id.slice(0, 100)))
}
