import {
  formatSlotUsage,
  GROUP,
  parseSlotUsage,
  type SlotName,
  slotIndex,
  slotName,
} from '@akrijs/api'
import { AllocationRefusedError } from '../../errors.js'
import type { Cluster } from '../../ports/cluster.js'
import type { ServedInstance } from '../instances/served-instance.js'
import { offeredSlots, type PreferenceRequest, preferredSlots } from '../slots/offer.js'
import type { RequestClaims } from '../slots/slot-claims.js'
import type { SlotTable } from '../slots/slot-table.js'
import { type ContainerAllocation, grantSlots } from './allocation.js'
import { type ClaimSlot, claimAllOrNone } from './claim-slots.js'
import type { AdvertisedDevice, PluginBehaviour, PluginOptions } from './plugin-behaviour.js'

interface InstancePluginOptions extends PluginOptions {
  readonly cluster: PluginOptions['cluster'] & {
    readonly instances: Pick<Cluster['instances'], 'get'>
  }
}

/** What the plugin offers by the slots of one state of the Instance. */
interface Offer {
  readonly by: Pick<SlotTable, 'slots' | 'beyond' | 'usable'>
  readonly slots: ReadonlyMap<SlotName, boolean>
  readonly list: readonly AdvertisedDevice[]
}

/** The resource of one Instance: its ids are its slots. */
export class InstancePlugin implements PluginBehaviour {
  readonly level = 'instance'
  readonly resourceName: string
  readonly #options: InstancePluginOptions
  readonly #usage: string
  #instance: ServedInstance
  /** Of the last state: each Allocate asks for it several times. */
  #offer: Offer | undefined

  constructor(instance: ServedInstance, options: InstancePluginOptions) {
    this.resourceName = `${GROUP}/${instance.name}`
    this.#usage = formatSlotUsage({ level: 'instance', node: options.node })
    this.#instance = instance
    this.#options = options
  }

  get instance(): ServedInstance {
    return this.#instance
  }

  /**
   * Takes over a new state of the device, its properties and its capacity.
   * @returns whether the advertised list may change
   */
  update(instance: ServedInstance): boolean {
    const { healthy, capacity } = this.#instance
    this.#instance = instance
    return healthy !== instance.healthy || capacity !== instance.capacity
  }

  /**
   * While the Instance does not exist, as before it is created again, no slot is offered. The slots
   * of running containers stay healthy: the kubelet shows that in their Pods, and the device is
   * there.
   */
  advertise(): readonly AdvertisedDevice[] {
    const { by, list } = this.#offered()
    const { name, healthy } = this.#instance
    if (by.usable || !healthy) return list
    const held = new Set(
      this.#options.ledger
        .inUse(name)
        .flatMap(({ resourceName, id }) => (resourceName === this.resourceName ? id : [])),
    )
    if (held.size === 0) return list
    return list.map((each) => (held.has(each.id) ? { id: each.id, healthy: true } : each))
  }

  prefer(requests: readonly PreferenceRequest[]): readonly (readonly string[])[] {
    const { node, ledger } = this.#options
    const table = this.#table()
    const slots = ledger.overlay(this.#instance.name, table.slots)
    return requests.map((request) =>
      preferredSlots(slots, { node, nodes: table.nodes, ...request }),
    )
  }

  async allocate(
    requests: readonly (readonly string[])[],
    claims: RequestClaims,
  ): Promise<readonly ContainerAllocation[]> {
    // An update during the request must not mix two states of a device in one answer.
    const instance = this.#instance
    // Once for all ids: there can be thousands of each.
    const offered = this.#offered()
    const containers = requests.map((ids) => ids.map((id) => this.#checkedSlot(id, offered)))
    await claimAllOrNone({ ...this.#options, claims, level: this.level }, async (claim) => {
      for (const slot of new Set(containers.flat())) await this.#claim(slot, claim)
    })
    return grantSlots(
      containers.map((slots) =>
        slots.map((slot) => ({ instance, slot, id: slot, annotation: slot })),
      ),
      this.resourceName,
      this.#options,
    )
  }

  #table(): SlotTable {
    return this.#options.slotTable(this.#instance)
  }

  #offered(): Offer {
    const by = this.#table()
    const { slots, beyond, usable } = by
    const last = this.#offer
    if (
      last?.by.slots === slots &&
      last.by.beyond.size === beyond.size &&
      last.by.usable === usable
    )
      return last
    const { node } = this.#options
    const offered = offeredSlots(slots, {
      node,
      healthy: usable,
      heldOverCapacity: beyond.size,
    })
    const list = Array.from(offered, ([id, healthy]) => ({ id, healthy }))
    this.#offer = { by, slots: offered, list }
    return this.#offer
  }

  #checkedSlot(id: string, offered: Offer): SlotName {
    const { key, name, healthy } = this.#instance
    const shown = JSON.stringify(id.slice(0, 200))
    const index = slotIndex(name, id)
    if (index === undefined)
      throw new AllocationRefusedError(`${shown} is not a slot of Instance ${name}`)
    if (!healthy)
      throw new AllocationRefusedError(`the device of Instance ${name} is not available now`)
    const instance = this.#options.cluster.instances.get(key)
    if (instance === undefined) throw new AllocationRefusedError(`there is no Instance ${name} yet`)
    if (instance.metadata.deletionTimestamp !== undefined)
      throw new AllocationRefusedError(`Instance ${name} is being deleted`)
    const slot = slotName(name, index)
    const isOffered = offered.slots.get(slot)
    if (isOffered === undefined)
      throw new AllocationRefusedError(
        `Instance ${name} has no slot ${shown}; its capacity is ${offered.by.slots.size}`,
      )
    if (!isOffered) {
      const usage = offered.by.slots.get(slot)
      const holder = usage !== undefined && 'node' in usage ? ` by node ${usage.node}` : ''
      throw new AllocationRefusedError(`slot ${id} is taken${holder}`)
    }
    // The Instance may have lost the claim of a running container.
    const claim = this.#options.ledger.claimOf(slot) ?? this.#usage
    if (claim !== this.#usage)
      throw new AllocationRefusedError(
        `a container of this node has slot ${id} already, by ${claim}`,
      )
    return slot
  }

  async #claim(slot: SlotName, claim: ClaimSlot): Promise<void> {
    const { key, name, device } = this.#instance
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
