import {
  formatSlotUsage,
  GROUP,
  type InstanceName,
  parseSlotUsage,
  type SlotName,
  slotIndex,
  slotName,
} from '@akrijs/api'
import { AllocationRefusedError } from '../errors.js'
import type { InstanceSlots } from '../slots/instance-slots.js'
import { offeredSlots, type PreferenceRequest, preferredSlots } from '../slots/offer.js'
import type { ClaimSlot } from '../slots/slot-claims.js'
import { type ContainerAllocation, grantSlots } from './allocation.js'
import type { AdvertisedDevice, PluginBehaviour, PluginOptions } from './plugin-behaviour.js'

/** The resource of one Instance: its ids are its slots. */
export class InstancePlugin implements PluginBehaviour {
  readonly level = 'instance'
  readonly resourceName: string
  readonly #name: InstanceName
  readonly #options: PluginOptions
  readonly #usage: string

  /** @param name of an Instance in the book */
  constructor(name: InstanceName, options: PluginOptions) {
    this.resourceName = `${GROUP}/${name}`
    this.#name = name
    this.#usage = formatSlotUsage({ level: 'instance', node: options.node })
    this.#options = options
  }

  /**
   * While the Instance does not exist, as before it is created again, no slot is offered. The slots
   * of running containers stay healthy: the kubelet shows that in their Pods, and the device is
   * there.
   */
  advertise(): readonly AdvertisedDevice[] {
    const { book, node } = this.#options
    const slots = book.of(this.#name)
    if (slots === undefined) return []
    const held = new Set(
      slots.usable || !slots.served.healthy
        ? []
        : book.allocations
            .inUse(this.#name)
            .flatMap(({ resourceName, id }) => (resourceName === this.resourceName ? id : [])),
    )
    return Array.from(offeredSlots(slots, node), ([id, offered]) => ({
      id,
      healthy: offered || held.has(id),
    }))
  }

  prefer(requests: readonly PreferenceRequest[]): readonly (readonly string[])[] {
    const { book, node } = this.#options
    const slots = book.of(this.#name)
    return requests.map((request) =>
      slots === undefined ? request.mustInclude : preferredSlots(slots, node, request),
    )
  }

  allocate(requests: readonly (readonly string[])[]): Promise<readonly ContainerAllocation[]> {
    const { book, claims, node } = this.#options
    return claims.forRequest(this.level, async (claim) => {
      // An update during the request must not mix two states of a device in one answer.
      const slots = book.of(this.#name)
      if (slots === undefined)
        throw new AllocationRefusedError(`the device of Instance ${this.#name} was removed`)
      const offered = offeredSlots(slots, node)
      const containers = requests.map((ids) => ids.map((id) => this.#checked(id, slots, offered)))
      for (const slot of new Set(containers.flat())) await this.#claim(slot, slots, claim)
      const granted = containers.map((ids) =>
        ids.map((slot) => ({ instance: slots.served, slot, id: slot, annotation: slot })),
      )
      return grantSlots(granted, this.resourceName, this.#options)
    })
  }

  #checked(
    id: string,
    { served, state, slots }: InstanceSlots,
    offered: ReadonlyMap<SlotName, boolean>,
  ): SlotName {
    const { name, healthy } = served
    const shown = JSON.stringify(id.slice(0, 200))
    const index = slotIndex(name, id)
    if (index === undefined)
      throw new AllocationRefusedError(`${shown} is not a slot of Instance ${name}`)
    if (!healthy)
      throw new AllocationRefusedError(`the device of Instance ${name} is not available now`)
    if (state === 'absent') throw new AllocationRefusedError(`there is no Instance ${name} yet`)
    if (state === 'leaving') throw new AllocationRefusedError(`Instance ${name} is being deleted`)
    const slot = slotName(name, index)
    if (!offered.has(slot))
      throw new AllocationRefusedError(
        `Instance ${name} has no slot ${shown}; its capacity is ${slots.size}`,
      )
    if (offered.get(slot)) return slot
    // The Instance may have lost the claim of a running container.
    const ours = this.#options.book.allocations.claimOf(slot)
    if (ours !== undefined)
      throw new AllocationRefusedError(
        `a container of this node has slot ${id} already, by ${ours}`,
      )
    const usage = slots.get(slot)
    const holder = usage !== undefined && 'node' in usage ? ` by node ${usage.node}` : ''
    throw new AllocationRefusedError(`slot ${id} is taken${holder}`)
  }

  async #claim(slot: SlotName, { served }: InstanceSlots, claim: ClaimSlot): Promise<void> {
    const { key, name, device } = served
    const result = await claim({ instance: key, slot, usage: this.#usage, device: device.id })
    if (result.held) return
    if (result.outcome !== 'taken')
      throw new AllocationRefusedError(`Instance ${name} or its slot ${slot} is gone`)
    const usage = parseSlotUsage(result.by)
    throw new AllocationRefusedError(
      `slot ${slot} was just taken${'node' in usage ? ` by node ${usage.node}` : ''}`,
    )
  }
}
