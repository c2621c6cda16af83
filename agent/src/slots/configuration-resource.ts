import {
  type Compatibility,
  type ConfigurationName,
  formatSlotUsage,
  GROUP,
  type InstanceName,
  type SlotName,
} from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import { AllocationRefusedError } from '../errors.js'
import type { AdvertisedDevice, ChosenSlot, PreferenceRequest, Resource } from './resource.js'
import type { InstanceSlots, SlotBook } from './slot-book.js'

// The ids of a Configuration's resource are virtual: Allocate decides which slot an id stands for.
// The advertised ids, the preference and Allocate are all computed here, from the same slots and
// claims, so they cannot disagree.

interface ConfigurationResourceOptions {
  readonly book: SlotBook
  readonly node: NodeName
  /** The other system that reads the ids of claims. @default off */
  readonly compatibility?: Compatibility | undefined
}

/** The resource of a Configuration: any of its devices. */
export class ConfigurationResource implements Resource {
  readonly level = 'configuration'
  readonly name: string
  readonly #configuration: ConfigurationName
  readonly #options: ConfigurationResourceOptions
  readonly #form: string

  constructor(configuration: ConfigurationName, options: ConfigurationResourceOptions) {
    this.name = `${GROUP}/${configuration}`
    this.#configuration = configuration
    this.#options = options
    // Agents of the other system can read `cam-0`, `cam-1` and so on.
    this.#form = options.compatibility === 'akri-0.13' ? `${configuration}-` : NUMBERS
  }

  advertise(): readonly AdvertisedDevice[] {
    const { book } = this.#options
    return advertisedIds(book.all(this.#configuration), this.#inUse(), this.#form)
  }

  prefer(requests: readonly PreferenceRequest[]): readonly (readonly string[])[] {
    const slots = this.#options.book.all(this.#configuration)
    return requests.map((request) => preferredIds(slots, request, this.#form))
  }

  choose(requests: readonly (readonly string[])[]): readonly (readonly ChosenSlot[])[] {
    const { book, node } = this.#options
    const choice = chooseSlots(book.all(this.#configuration), requests, this.#form)
    if (!choice.ok) throw new AllocationRefusedError(choice.reason)
    return choice.containers.map((chosen) =>
      chosen.map(({ id, owner, slot }) => {
        const usage = formatSlotUsage({ level: 'configuration', virtualId: id, node })
        return { id, slot, instance: owner.served, usage }
      }),
    )
  }

  /**
   * The ids of containers whose devices cannot be allocated, and whether the device is there. The
   * kubelet keeps them until the Pods end, and shows the health of each in the status of its Pod.
   */
  #inUse(): ReadonlyMap<string, boolean> {
    const { book } = this.#options
    const inUse = new Map<string, boolean>()
    const add = (instance: InstanceName, isThere: boolean) => {
      for (const id of book.allocations.idsInUse(instance, this.name)) inUse.set(id, isThere)
    }
    for (const instance of book.lost(this.#configuration)) add(instance, false)
    for (const { served, usable } of book.all(this.#configuration))
      if (served.healthy && !usable) add(served.name, true)
    return inUse
  }
}

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

/** A slot, and the Instance that has it. */
interface OwnedSlot {
  readonly owner: InstanceSlots
  readonly slot: SlotName
}

interface SlotOfId extends OwnedSlot {
  readonly id: string
}

type SlotChoice =
  /** The slots of each container, in the order of its ids. */
  | { readonly ok: true; readonly containers: readonly (readonly SlotOfId[])[] }
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
  form = NUMBERS,
): AdvertisedDevice[] {
  const health = new Map(inUse)
  for (const [id, { owner }] of claimsOf(instances))
    health.set(id, owner.usable || inUse.get(id) === true)
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
 */
export function chooseSlots(
  instances: readonly InstanceSlots[],
  requests: readonly (readonly string[])[],
  form = NUMBERS,
): SlotChoice {
  const claims = claimsOf(instances)
  // How many free slots the request has of an Instance.
  const taken = new Map<InstanceSlots, number>()
  const freeCount = (each: InstanceSlots) => each.free.length - (taken.get(each) ?? 0)
  const order = (a: InstanceSlots, b: InstanceSlots) =>
    freeCount(b) - freeCount(a) || (a.served.name < b.served.name ? -1 : 1)
  // An id of several containers stands for the same slot in each of them.
  const chosen = new Map<string, SlotOfId>()
  const containers: SlotOfId[][] = []
  const refused = (reason: string) => ({ ok: false, reason }) as const
  for (const ids of requests) {
    if (new Set(ids).size < ids.length)
      return refused(`ids ${shown(ids)} of one container are not all different`)
    const idOf = new Map<InstanceSlots, string>()
    for (const id of ids) {
      const claim = claims.get(id)
      const slot = chosen.get(id) ?? (claim && { id, ...claim })
      if (slot === undefined) {
        if (numberOf(id, form) === undefined)
          return refused(`${shown([id])} is not an id of this resource`)
        continue
      }
      const { owner } = slot
      const { name } = owner.served
      if (claim?.owner.usable === false)
        return refused(`the device of ${name} is not available now`)
      const other = idOf.get(owner)
      if (other !== undefined)
        return refused(
          `ids ${other} and ${id} both stand for Instance ${name}, and a container ` +
            'uses each device once',
        )
      idOf.set(owner, id)
      chosen.set(id, slot)
    }
    const free = instances.filter((each) => !idOf.has(each) && freeCount(each) > 0)
    const available = idOf.size + free.length
    if (available < ids.length)
      return refused(
        `${ids.length} different devices are requested, and ${available} are available`,
      )
    const owners = firstOf(free, ids.length - idOf.size, order).values()
    containers.push(
      ids.flatMap((id) => {
        const before = chosen.get(id)
        if (before !== undefined) return before
        const { value: owner } = owners.next()
        const slot = owner?.free[taken.get(owner) ?? 0]
        if (owner === undefined || slot === undefined) return []
        taken.set(owner, (taken.get(owner) ?? 0) + 1)
        chosen.set(id, { id, owner, slot })
        return { id, owner, slot }
      }),
    )
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
  form = NUMBERS,
): string[] {
  const preferred = [...request.mustInclude]
  const claims = claimsOf(instances)
  const left = request.available.filter((id) => !preferred.includes(id))
  const claimed = left.filter((id) => {
    const claim = claims.get(id)
    // A claim beyond the capacity ends if its id is not given again.
    return claim !== undefined && !claim.owner.beyond.has(claim.slot)
  })
  const unclaimed = left.filter((id) => !claims.has(id))
  const room = () => Math.max(0, request.size - preferred.length)
  const isPossible = (ids: readonly string[]) =>
    chooseSlots(instances, [[...preferred, ...ids]], form).ok
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
  addPossible(inOrder(claimed, form))
  // Unclaimed ids are alike: each stands for any free slot. So many are possible.
  const first = inOrder(unclaimed, form).slice(0, room())
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

/** The slots that this node has claimed through the Configuration, by id. */
function claimsOf(instances: readonly InstanceSlots[]): Map<string, OwnedSlot> {
  const claims = new Map<string, OwnedSlot>()
  for (const owner of instances)
    for (const [id, slot] of owner.byId) if (!claims.has(id)) claims.set(id, { owner, slot })
  return claims
}

function shown(ids: readonly string[]): string {
  return JSON.stringify(ids.map((id) => id.slice(0, 100)))
}
