import type { InstanceName, SlotName, SlotUsage } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import { slotsInClaimOrder, spareSlots } from './offer.js'

// The resource of a Configuration: its ids are placeholders, and which slot an id stands for is decided when it is allocated.
// What is advertised, what is preferred and what is allocated are all computed here, from the same slots and claims, so that
// they cannot disagree.

/** The slots of one Instance of the Configuration, as this node sees them. */
export interface InstanceSlots {
  readonly instance: InstanceName
  /** Whether its device can be given to somebody at present. */
  readonly healthy: boolean
  /** All nodes of the Instance, in the same order for each of them. */
  readonly nodes: readonly NodeName[]
  readonly slots: ReadonlyMap<SlotName, SlotUsage>
  /** How many slots are still held beyond the capacity, since it was lowered: as many free ones have to wait. */
  readonly heldOverCapacity: number
}

/** A slot that an id stands for. */
export interface ChosenSlot {
  readonly id: string
  readonly instance: InstanceName
  readonly slot: SlotName
  /** This node holds it for this id already. */
  readonly claimed: boolean
}

export type SlotChoice =
  /** For each container its slots, in the order of its ids. */
  | { readonly ok: true; readonly containers: readonly (readonly ChosenSlot[])[] }
  | { readonly ok: false; readonly reason: string }

/** Ids that stand for nothing yet are numbers. */
const PLACEHOLDER = /^(0|[1-9][0-9]{0,8})$/

/**
 * The ids to advertise: those that this node has claimed, and one for each Instance with a free slot, by the smallest numbers
 * that are not claimed. An id whose device cannot be given to anybody is unhealthy.
 */
export function advertisedIds(
  instances: readonly InstanceSlots[],
  node: NodeName,
): { id: string; healthy: boolean }[] {
  const claims = claimsOf(instances, node)
  const ids = [...claims].map(([id, { of }]) => ({ id, healthy: of.healthy }))
  const free = instances.filter((one) => freeSlots(one).length > 0).length
  for (let number = 0, added = 0; added < free; number++) {
    if (claims.has(String(number))) continue
    ids.push({ id: String(number), healthy: true })
    added++
  }
  return ids.sort((a, b) => compareIds(a.id, b.id))
}

/**
 * Chooses a slot for each id. An id that is claimed keeps its slot; any other takes one of the Instance with the most free
 * slots, as {@link slotsInClaimOrder} has them. Within one container all slots are of different Instances, or the whole request is refused.
 */
export function chooseSlots(
  instances: readonly InstanceSlots[],
  node: NodeName,
  requests: readonly (readonly string[])[],
): SlotChoice {
  const claims = claimsOf(instances, node)
  const free = new Map(instances.map((one) => [one.instance, freeInTurn(one, node)]))
  // An id that several containers ask for stands for the same slot in each of them.
  const chosen = new Map<string, ChosenSlot>()
  const containers: ChosenSlot[][] = []
  for (const ids of requests) {
    if (new Set(ids).size < ids.length)
      return { ok: false, reason: `ids ${shown(ids)} of one container are not all different` }
    const used = new Map<InstanceName, string>()
    const fixed = new Map<string, ChosenSlot>()
    for (const id of ids) {
      const claim = claims.get(id)
      const slot =
        chosen.get(id) ??
        (claim && { id, instance: claim.of.instance, slot: claim.slot, claimed: true })
      if (slot === undefined) {
        if (!PLACEHOLDER.test(id))
          return { ok: false, reason: `${shown([id])} is no id of this resource` }
        continue
      }
      if (claim?.of.healthy === false)
        return { ok: false, reason: `the device of ${claim.of.instance} cannot be seen at present` }
      const other = used.get(slot.instance)
      if (other !== undefined)
        return {
          ok: false,
          reason: `ids ${other} and ${id} both stand for Instance ${slot.instance}, and a container uses each device once`,
        }
      used.set(slot.instance, id)
      fixed.set(id, slot)
    }
    const candidates = instances
      .filter(({ instance }) => !used.has(instance) && (free.get(instance)?.length ?? 0) > 0)
      .sort(
        (a, b) =>
          (free.get(b.instance)?.length ?? 0) - (free.get(a.instance)?.length ?? 0) ||
          (a.instance < b.instance ? -1 : 1),
      )
    const container: ChosenSlot[] = []
    for (const id of ids) {
      const known = fixed.get(id)
      if (known !== undefined) {
        container.push(known)
        continue
      }
      const candidate = candidates.shift()
      const slot = candidate && free.get(candidate.instance)?.shift()
      if (candidate === undefined || slot === undefined)
        return {
          ok: false,
          reason: `${ids.length} different devices are asked for, and no more than ${ids.length - missing(ids, container, fixed)} can be had`,
        }
      const taken = { id, instance: candidate.instance, slot, claimed: false }
      chosen.set(id, taken)
      container.push(taken)
    }
    for (const slot of fixed.values()) chosen.set(slot.id, slot)
    containers.push(container)
  }
  return { ok: true, containers }
}

/**
 * Which of the ids that the kubelet has left it should take, so that all stand for different Instances: what it must take,
 * then claimed ones, which nobody uses any more, then ids that stand for nothing yet. The other way round a slot that nobody
 * uses would stay with this node while the one that is claimed instead may be the last one that another node could have.
 * Where different Instances cannot be had, fewer are named, and the kubelet fills up with others, which are refused then.
 */
export function preferredIds(
  instances: readonly InstanceSlots[],
  node: NodeName,
  request: {
    readonly available: readonly string[]
    readonly mustInclude: readonly string[]
    readonly size: number
  },
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
  readonly of: InstanceSlots
  readonly slot: SlotName
}

/** The slots that this node holds through the Configuration, by id. */
function claimsOf(instances: readonly InstanceSlots[], node: NodeName): Map<string, Claim> {
  const claims = new Map<string, Claim>()
  for (const of of instances) {
    for (const [slot, usage] of of.slots) {
      // Of two slots with one id, which nobody should have written, the first one is meant.
      if (usage.level === 'configuration' && usage.node === node && !claims.has(usage.virtualId))
        claims.set(usage.virtualId, { of, slot })
    }
  }
  return claims
}

function freeInTurn(one: InstanceSlots, node: NodeName): SlotName[] {
  const free = new Set(freeSlots(one))
  return slotsInClaimOrder(one.slots, { node, nodes: one.nodes }).flatMap(([slot]) =>
    free.has(slot) ? slot : [],
  )
}

function freeSlots({ healthy, slots, heldOverCapacity: heldBeyond }: InstanceSlots): SlotName[] {
  return healthy ? spareSlots(slots, heldBeyond) : []
}

/** How many ids of a container have found no slot. */
function missing(
  ids: readonly string[],
  container: readonly ChosenSlot[],
  fixed: ReadonlyMap<string, ChosenSlot>,
): number {
  const found = new Set([...container.map(({ id }) => id), ...fixed.keys()])
  return ids.filter((id) => !found.has(id)).length
}

/** Numbers in their order, and what another system wrote behind them. */
function compareIds(a: string, b: string): number {
  const [isA, isB] = [PLACEHOLDER.test(a), PLACEHOLDER.test(b)]
  if (isA && isB) return Number(a) - Number(b)
  if (isA !== isB) return isA ? -1 : 1
  return a < b ? -1 : 1
}

function shown(ids: readonly string[]): string {
  return JSON.stringify(ids.map((id) => id.slice(0, 100)))
}
