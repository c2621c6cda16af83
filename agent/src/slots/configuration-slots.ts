import type { InstanceName, SlotName } from '@akrijs/api'
import type { InstanceSlots } from './instance-slots.js'
import type { PreferenceRequest } from './offer.js'
import { NUMBERS, type VirtualIds } from './virtual-ids.js'

// The ids of a Configuration's resource are virtual: Allocate decides which slot an id stands for.
// The advertised ids, the preference and Allocate are all computed here, from the same slots and
// claims, so they cannot disagree.

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

/**
 * The ids to advertise: each id that this node has claimed, and an id for each Instance with a free
 * slot. Unclaimed ids are the smallest unused numbers. A claimed id is unhealthy while its device
 * cannot be allocated.
 * @param inUse ids of containers whose devices cannot be allocated, and whether the device is there
 */
export function advertisedIds(
  instances: readonly InstanceSlots[],
  inUse: ReadonlyMap<string, boolean> = new Map(),
  virtualIds: VirtualIds = NUMBERS,
): AdvertisedId[] {
  const claims = claimsOf(instances)
  const used = new Map(inUse)
  for (const [id, { owner }] of claims) used.set(id, owner.usable || inUse.get(id) === true)
  const claimed = [...used]
    .map(([id, healthy]) => ({ id, healthy }))
    .sort((a, b) => virtualIds.compare(a.id, b.id))
    .values()
  let next = claimed.next()
  const ids: AdvertisedId[] = []
  const isUpTo = (number: number, id: string) =>
    (virtualIds.numberOf(id) ?? Number.POSITIVE_INFINITY) <= number
  let free = instances.filter((instance) => instance.free.length > 0).length
  for (let number = 0; free > 0; number++) {
    for (; !next.done && isUpTo(number, next.value.id); next = claimed.next()) ids.push(next.value)
    const unclaimed = virtualIds.of(number)
    if (used.has(unclaimed.id)) continue
    ids.push(unclaimed)
    free--
  }
  for (; !next.done; next = claimed.next()) ids.push(next.value)
  return ids
}

interface AdvertisedId {
  readonly id: string
  readonly healthy: boolean
}

/**
 * Chooses a slot for each id. A claimed id keeps its slot. Any other id gets a slot of the Instance
 * with the most free slots, in the order in which the node claims them. All slots of a container
 * belong to different Instances; if that is not possible for a container, the whole request is
 * refused.
 */
export function chooseSlots(
  instances: readonly InstanceSlots[],
  requests: readonly (readonly string[])[],
  virtualIds: VirtualIds = NUMBERS,
): SlotChoice {
  const claims = claimsOf(instances)
  // How many free slots the request has of an Instance.
  const taken = new Map<InstanceName, number>()
  const takenOf = (each: InstanceSlots) => taken.get(each.served.name) ?? 0
  const freeCount = (each: InstanceSlots) => each.free.length - takenOf(each)
  const takeFree = (each: InstanceSlots) => {
    const count = takenOf(each)
    taken.set(each.served.name, count + 1)
    return each.free[count]
  }
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
        (claim && { id, instance: claim.owner.served.name, slot: claim.slot, claimed: true })
      if (slot === undefined) {
        if (virtualIds.numberOf(id) === undefined)
          return { ok: false, reason: `${shown([id])} is not an id of this resource` }
        continue
      }
      if (claim?.owner.usable === false)
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
    const free = instances.filter(
      (each) => !idByInstance.has(each.served.name) && freeCount(each) > 0,
    )
    const available = fixed.size + free.length
    if (available < ids.length)
      return {
        ok: false,
        reason: `${ids.length} different devices are requested, and ${available} are available`,
      }
    const order = (a: InstanceSlots, b: InstanceSlots) =>
      freeCount(b) - freeCount(a) || (a.served.name < b.served.name ? -1 : 1)
    const candidates = firstOf(free, ids.length - fixed.size, order).values()
    const container = ids.flatMap((id): ChosenSlot | [] => {
      const fixedSlot = fixed.get(id)
      if (fixedSlot !== undefined) return fixedSlot
      const { value: owner } = candidates.next()
      const slot = owner && takeFree(owner)
      return owner && slot ? { id, instance: owner.served.name, slot, claimed: false } : []
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
  request: PreferenceRequest,
  virtualIds: VirtualIds = NUMBERS,
): string[] {
  const preferred = [...request.mustInclude]
  const claims = claimsOf(instances)
  const left = request.available.filter((id) => !preferred.includes(id))
  const compareIds = (a: string, b: string) => virtualIds.compare(a, b)
  const claimed = left
    .filter((id) => {
      const claim = claims.get(id)
      // A claim beyond the capacity ends if its id is not given again.
      return claim !== undefined && !claim.owner.beyond.has(claim.slot)
    })
    .sort(compareIds)
  const unclaimed = left.filter((id) => !claims.has(id))
  const room = () => Math.max(0, request.size - preferred.length)
  const isPossible = (ids: readonly string[]) =>
    chooseSlots(instances, [[...preferred, ...ids]], virtualIds).ok
  // A question looks at all Instances, and a Pod may ask for a thousand devices: so many ids are
  // asked about at once. Those that are possible together are possible one after the other.
  const addPossible = (ids: readonly string[]): void => {
    if (ids.length === 0 || room() === 0) return
    if (ids.length <= room() && isPossible(ids)) {
      preferred.push(...ids)
      return
    }
    if (ids.length === 1) return
    const half = Math.min(room(), Math.ceil(ids.length / 2))
    addPossible(ids.slice(0, half))
    addPossible(ids.slice(half))
  }
  addPossible(claimed)
  // Unclaimed ids are alike: each stands for any free slot. So many are possible.
  const first = firstOf(unclaimed, room(), compareIds)
  let [possible, impossible] = [0, first.length + 1]
  for (let count = first.length; possible + 1 < impossible; count = (possible + impossible) >> 1)
    if (isPossible(first.slice(0, count))) possible = count
    else impossible = count
  preferred.push(...first.slice(0, possible))
  return preferred
}

/** The first items of an order. A container asks for a few of thousands. */
function firstOf<T>(items: readonly T[], count: number, order: (a: T, b: T) => number): T[] {
  if (count > 16) return items.toSorted(order).slice(0, count)
  const first: T[] = []
  for (const item of items) {
    const last = first.at(-1)
    if (first.length >= count && (last === undefined || order(item, last) > 0)) continue
    const place = first.findIndex((other) => order(item, other) < 0)
    first.splice(place < 0 ? first.length : place, 0, item)
    if (first.length > count) first.pop()
  }
  return first
}

interface Claim {
  readonly owner: InstanceSlots
  readonly slot: SlotName
}

/** The slots that this node has claimed through the Configuration, by id. */
function claimsOf(instances: readonly InstanceSlots[]): Map<string, Claim> {
  const claims = new Map<string, Claim>()
  for (const owner of instances)
    for (const [id, slot] of owner.byId) if (!claims.has(id)) claims.set(id, { owner, slot })
  return claims
}

function shown(ids: readonly string[]): string {
  return JSON.stringify(ids.map((id) => id.slice(0, 100)))
}
