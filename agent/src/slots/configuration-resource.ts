import { AllocationRefusedError } from '../errors.js'
import type { AdvertisedDevice, ChosenSlot, InstanceSlots, PreferenceRequest } from './resource.js'

// The resource of a Configuration: any of its devices. Its ids are virtual: Allocate decides which
// slot an id stands for. The advertised ids, the preference and Allocate are all computed here,
// from the same slots and claims, so they cannot disagree.

/** The text before the number of an id that no slot has been claimed for. */
const NUMBERS = ''

/** The number of an id; undefined for an id in another form. */
function numberOf(id: string, form: string): number | undefined {
  if (!id.startsWith(form)) return undefined
  const digits = id.slice(form.length)
  return /^(0|[1-9][0-9]{0,8})$/.test(digits) ? Number(digits) : undefined
}

/** Numbers in their order, then ids in another form. */
function inOrder(ids: Iterable<string>, form: string): string[] {
  const numbered = Array.from(ids, (id) => ({ id, number: numberOf(id, form) ?? Infinity }))
  numbered.sort((a, b) => a.number - b.number || (a.id < b.id ? -1 : 1))
  return numbered.map(({ id }) => id)
}

/** The slot that an id stands for, and the Instance that has it. */
interface SlotOfId extends ChosenSlot {
  readonly owner: InstanceSlots
}

/**
 * The ids to advertise: each id that this node has claimed, and an id for each Instance with a free
 * slot. Unclaimed ids are the smallest unused numbers.
 * @param lost the ids of containers whose devices are gone. The kubelet keeps them until the Pods
 * end, and shows the health of each in the status of its Pod
 */
export function advertisedIds(
  instances: readonly InstanceSlots[],
  lost: readonly string[] = [],
  form = NUMBERS,
): AdvertisedDevice[] {
  const health = new Map(lost.map((id) => [id, false]))
  for (const [id, { owner }] of claimsOf(instances)) health.set(id, owner.served.healthy)
  let free = instances.filter((instance) => instance.free.length > 0).length
  for (let number = 0; free > 0; number++) {
    const id = `${form}${number}`
    if (health.has(id)) continue
    health.set(id, true)
    free--
  }
  return inOrder(health.keys(), form).map((id) => ({ id, healthy: health.get(id) === true }))
}

/**
 * Chooses a slot for each id. A claimed id keeps its slot. Any other id gets a slot of the Instance
 * with the most free slots, in the order in which the node claims them. All slots of a container
 * belong to different Instances; if that is not possible for a container, the whole request is
 * refused.
 * @returns the slots of each container, in the order of its ids
 * @throws AllocationRefusedError
 */
export function chooseSlots(
  instances: readonly InstanceSlots[],
  requests: readonly (readonly string[])[],
  form = NUMBERS,
): ChosenSlot[][] {
  const claims = claimsOf(instances)
  // How many free slots the request has of an Instance.
  const taken = new Map<InstanceSlots, number>()
  const freeCount = (each: InstanceSlots) => each.free.length - (taken.get(each) ?? 0)
  // An id of several containers stands for the same slot in each of them.
  const chosen = new Map<string, SlotOfId>()
  return requests.map((ids) => {
    if (new Set(ids).size < ids.length)
      throw refusal(`ids ${shown(ids)} of one container are not all different`)
    const idOf = new Map<InstanceSlots, string>()
    for (const id of ids) {
      const slot = chosen.get(id) ?? claims.get(id)
      if (slot === undefined) {
        if (numberOf(id, form) === undefined)
          throw refusal(`${shown([id])} is not an id of this resource`)
        continue
      }
      const { owner } = slot
      const { name } = owner.served
      if (!owner.usable) throw refusal(`the device of ${name} is not available now`)
      const other = idOf.get(owner)
      if (other !== undefined)
        throw refusal(
          `ids ${other} and ${id} both stand for Instance ${name}, and a container ` +
            'uses each device once',
        )
      idOf.set(owner, id)
      chosen.set(id, slot)
    }
    const free = instances.filter((each) => !idOf.has(each) && freeCount(each) > 0)
    const available = idOf.size + free.length
    if (available < ids.length)
      throw refusal(`${ids.length} different devices are requested, and ${available} are available`)
    free.sort((a, b) => freeCount(b) - freeCount(a) || (a.served.name < b.served.name ? -1 : 1))
    for (const id of ids) {
      const owner = chosen.has(id) ? undefined : free.shift()
      const slot = owner?.free[taken.get(owner) ?? 0]
      if (owner === undefined || slot === undefined) continue
      taken.set(owner, (taken.get(owner) ?? 0) + 1)
      chosen.set(id, { id, slot, instance: owner.served, owner })
    }
    return ids.flatMap((id) => chosen.get(id) ?? [])
  })
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
  { available, mustInclude, size }: PreferenceRequest,
  form = NUMBERS,
): string[] {
  const claims = claimsOf(instances)
  const owners = new Set<InstanceSlots>()
  // The Instances of which an unclaimed id can still get a slot, less the ids that get one.
  let open = instances.filter(({ free }) => free.length > 0).length
  const isPossible = (id: string): boolean => {
    const owner = claims.get(id)?.owner
    const isValid = owner ? owner.usable && !owners.has(owner) : numberOf(id, form) !== undefined
    const needed = owner === undefined || owner.free.length > 0 ? 1 : 0
    if (!isValid || needed > open) return false
    open -= needed
    if (owner !== undefined) owners.add(owner)
    return true
  }
  const preferred = [...mustInclude]
  if (!preferred.every(isPossible)) return preferred
  const included = new Set(mustInclude)
  const left = inOrder(available, form).filter((id) => !included.has(id))
  // A claim beyond the capacity ends if its id is not given again.
  const claimed = left.filter((id) => {
    const claim = claims.get(id)
    return claim?.owner.slots.has(claim.slot)
  })
  for (const id of [...claimed, ...left.filter((each) => !claims.has(each))])
    if (preferred.length < size && isPossible(id)) preferred.push(id)
  return preferred
}

/** The slots that this node has claimed through the Configuration, by id. */
function claimsOf(instances: readonly InstanceSlots[]): Map<string, SlotOfId> {
  const claims = new Map<string, SlotOfId>()
  for (const owner of instances)
    for (const [id, slot] of owner.byId)
      if (!claims.has(id)) claims.set(id, { id, slot, instance: owner.served, owner })
  return claims
}

function refusal(reason: string): AllocationRefusedError {
  return new AllocationRefusedError(reason)
}

function shown(ids: readonly string[]): string {
  return JSON.stringify(ids.map((id) => id.slice(0, 100)))
}
