import { formatSlotUsage, GROUP, type InstanceName, type SlotName, slotIndex } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import { AllocationRefusedError } from '../errors.js'
import type { AdvertisedDevice, ChosenSlot, PreferenceRequest, Resource } from './resource.js'
import { type InstanceSlots, type SlotBook, slotsInClaimOrder } from './slot-book.js'

interface InstanceResourceOptions {
  readonly book: SlotBook
  readonly node: NodeName
}

/** The resource of one Instance: its ids are its slots. */
export class InstanceResource implements Resource {
  readonly level = 'instance'
  readonly name: string
  readonly #instance: InstanceName
  readonly #options: InstanceResourceOptions

  constructor(instance: InstanceName, options: InstanceResourceOptions) {
    this.name = `${GROUP}/${instance}`
    this.#instance = instance
    this.#options = options
  }

  /**
   * While the Instance does not exist, as before it is created again, no slot is offered. The slots
   * of running containers stay healthy: the kubelet shows that in their Pods, and the device is
   * there.
   */
  advertise(): readonly AdvertisedDevice[] {
    const { book, node } = this.#options
    const slots = book.of(this.#instance)
    if (slots === undefined) return []
    const isKept = !slots.usable && slots.served.healthy
    const held = new Set(isKept ? book.allocations.idsInUse(this.#instance, this.name) : [])
    return Array.from(offeredSlots(slots, node), ([id, offered]) => ({
      id,
      healthy: offered || held.has(id),
    }))
  }

  prefer(requests: readonly PreferenceRequest[]): readonly (readonly string[])[] {
    const { book, node } = this.#options
    const slots = book.of(this.#instance)
    return requests.map((request) =>
      slots === undefined ? request.mustInclude : preferredSlots(slots, node, request),
    )
  }

  choose(requests: readonly (readonly string[])[]): readonly (readonly ChosenSlot[])[] {
    const { book, node } = this.#options
    const slots = book.of(this.#instance)
    if (slots === undefined)
      throw new AllocationRefusedError(`the device of Instance ${this.#instance} was removed`)
    const offered = offeredSlots(slots, node)
    const usage = formatSlotUsage({ level: 'instance', node })
    return requests.map((ids) =>
      ids.map((id) => {
        const refusal = this.#refusal(id, slots, offered)
        if (refusal !== undefined) throw new AllocationRefusedError(refusal)
        return { id, slot: id as SlotName, instance: slots.served, usage }
      }),
    )
  }

  #refusal(
    id: string,
    { served: { name, healthy }, state, slots }: InstanceSlots,
    offered: ReadonlyMap<string, boolean>,
  ): string | undefined {
    const shown = JSON.stringify(id.slice(0, 200))
    if (slotIndex(name, id) === undefined) return `${shown} is not a slot of Instance ${name}`
    if (!healthy) return `the device of Instance ${name} is not available now`
    if (state === 'absent') return `there is no Instance ${name} yet`
    if (state === 'leaving') return `Instance ${name} is being deleted`
    if (!offered.has(id))
      return `Instance ${name} has no slot ${shown}; its capacity is ${slots.size}`
    if (offered.get(id)) return undefined
    // The Instance may have lost the claim of a running container.
    const slot = id as SlotName
    const ours = this.#options.book.allocations.claimsIn(name)[slot]
    if (ours !== undefined) return `a container of this node has slot ${id} already, by ${ours}`
    const usage = slots.get(slot)
    const by = usage !== undefined && 'node' in usage ? ` by node ${usage.node}` : ''
    return `slot ${id} is taken${by}`
  }
}

/**
 * The slots of an Instance, and whether this node offers each of them through the Instance's
 * resource: the slot can be claimed, or this node has it through that resource.
 */
export function offeredSlots(
  { usable, slots, free }: InstanceSlots,
  node: NodeName,
): Map<SlotName, boolean> {
  const claimable = new Set(free)
  const offered = new Map<SlotName, boolean>()
  slots.forEach((usage, slot) => {
    const isHere = usage.level === 'instance' && usage.node === node
    offered.set(slot, usable && (isHere || claimable.has(slot)))
  })
  return offered
}

/**
 * The slots that the kubelet should choose: first those that it must include, then slots that this
 * node has claimed and no container uses, then free slots in the order of {@link
 * slotsInClaimOrder}.
 */
export function preferredSlots(
  { slots, nodes, free }: InstanceSlots,
  node: NodeName,
  { available, mustInclude, size }: PreferenceRequest,
): string[] {
  const claimed = slotsInClaimOrder(slots, { node, nodes }).flatMap(([slot, usage]) =>
    usage.level === 'instance' && usage.node === node ? slot : [],
  )
  const left = new Set(available)
  const chosen = new Set(mustInclude)
  for (const slot of [...claimed, ...free]) {
    if (chosen.size >= size) break
    if (left.has(slot)) chosen.add(slot)
  }
  return [...chosen]
}
