import { formatSlotUsage, GROUP, parseSlotUsage, type SlotName, slotIndex } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import { AllocationRefusedError } from '../../errors.js'
import type { Cluster } from '../../ports/cluster.js'
import type { AgentObserver } from '../../ports/observer.js'
import type { ServedInstance } from '../instances/served-instance.js'
import type { AllocationLedger } from '../slots/allocation-ledger.js'
import { offeredSlots, preferredSlots } from '../slots/offer.js'
import type { RequestClaims } from '../slots/slot-claims.js'
import type { SlotTable } from '../slots/slot-table.js'
import {
  type ContainerAllocation,
  containerAllocation,
  type WorkloadDirectoryMaker,
} from './allocation.js'
import { claimSlot } from './claim-slot.js'
import type { AdvertisedDevice, PluginBehaviour, PreferenceRequest } from './plugin-behaviour.js'

export interface InstancePluginOptions {
  readonly cluster: Pick<Cluster, 'claimSlot' | 'releaseSlot'> & {
    readonly instances: Pick<Cluster['instances'], 'get'>
  }
  readonly node: NodeName
  readonly ledger: AllocationLedger
  readonly observer: AgentObserver
  readonly directories: WorkloadDirectoryMaker | undefined
  slotTable(instance: ServedInstance): SlotTable
}

/** The resource of one Instance: its ids are its slots. */
export class InstancePlugin implements PluginBehaviour {
  readonly level = 'instance'
  readonly resourceName: string
  readonly #options: InstancePluginOptions
  #instance: ServedInstance

  constructor(instance: ServedInstance, options: InstancePluginOptions) {
    this.resourceName = `${GROUP}/${instance.name}`
    this.#instance = instance
    this.#options = options
  }

  get instance(): ServedInstance {
    return this.#instance
  }

  /**
   * What is served now: the device, its properties and its capacity may have changed.
   * @returns whether that changes what is offered
   */
  update(instance: ServedInstance): boolean {
    const { healthy, capacity } = this.#instance
    this.#instance = instance
    return healthy !== instance.healthy || capacity !== instance.capacity
  }

  advertise(): AdvertisedDevice[] {
    return [...this.#offered()].map(([id, healthy]) => ({ id, healthy }))
  }

  prefer(requests: readonly PreferenceRequest[]): readonly (readonly string[])[] {
    const { node, ledger } = this.#options
    const { nodes, slots: now } = this.#table()
    const slots = ledger.overlay(this.#instance.name, now)
    return requests.map((request) => preferredSlots(slots, { node, nodes, ...request }))
  }

  async allocate(
    requests: readonly (readonly string[])[],
    claims: RequestClaims,
  ): Promise<readonly ContainerAllocation[]> {
    // As it was when the kubelet asked: one answer must not mix two states of a device.
    const instance = this.#instance
    const slots = requests.map((ids) => ids.map((id) => this.#checkedSlot(id)))
    const claimed: SlotName[] = []
    try {
      for (const slot of new Set(slots.flat()))
        if (await this.#claim(slot, claims)) claimed.push(slot)
    } catch (error) {
      // All or none: what was claimed for a request that fails is nobody's.
      for (const slot of claimed) await this.#release(slot)
      throw error
    }
    const { directories, ledger } = this.#options
    for (const slot of slots.flat())
      ledger.record({ slot, resourceName: this.resourceName, id: slot })
    const paths = new Map<SlotName, string | undefined>()
    for (const slot of new Set(slots.flat()))
      paths.set(slot, await directories?.open(instance.key, slot))
    return slots.map((ofContainer) =>
      containerAllocation(
        ofContainer.map((slot) => ({
          instance,
          slot,
          annotation: slot,
          directory: paths.get(slot),
        })),
      ),
    )
  }

  get #usage(): string {
    return formatSlotUsage({ level: 'instance', node: this.#options.node })
  }

  #table(): SlotTable {
    return this.#options.slotTable(this.#instance)
  }

  #offered(): Map<SlotName, boolean> {
    // Without its Instance nothing can be claimed, and so nothing is offered.
    const { slots, heldOverCapacity, usable } = this.#table()
    return offeredSlots(slots, { node: this.#options.node, healthy: usable, heldOverCapacity })
  }

  #checkedSlot(id: string): SlotName {
    const { name, healthy } = this.#instance
    const shown = JSON.stringify(id.slice(0, 200))
    if (slotIndex(name, id) === undefined)
      throw new AllocationRefusedError(`${shown} is not a slot of Instance ${name}`)
    if (!healthy)
      throw new AllocationRefusedError(`the device of Instance ${name} cannot be seen at present`)
    const instance = this.#options.cluster.instances.get(this.#instance.key)
    if (instance === undefined) throw new AllocationRefusedError(`there is no Instance ${name} yet`)
    if (instance.metadata.deletionTimestamp !== undefined)
      throw new AllocationRefusedError(`Instance ${name} is being deleted, and is made anew then`)
    const slot = [...this.#offered()].find(([known]) => known === id)
    if (slot === undefined)
      throw new AllocationRefusedError(
        `Instance ${name} has no slot ${shown}; its capacity is ${this.#table().slots.size}`,
      )
    if (!slot[1]) throw new AllocationRefusedError(`slot ${id} is taken${this.#holderOf(slot[0])}`)
    const claim = this.#options.ledger.claimsIn(name)[slot[0]] ?? this.#usage
    // Its Instance may not say so at the moment.
    if (claim !== this.#usage)
      throw new AllocationRefusedError(
        `a container of this node has slot ${id} already, by ${claim}`,
      )
    return slot[0]
  }

  #holderOf(slot: SlotName): string {
    const usage = this.#table().slots.get(slot)
    return usage?.level === 'instance' || usage?.level === 'configuration'
      ? ` by node ${usage.node}`
      : ''
  }

  /** @returns whether the slot was free; one that this node holds already is used again */
  async #claim(slot: SlotName, claims: RequestClaims): Promise<boolean> {
    const { key, name } = this.#instance
    const result = await claimSlot(
      { ...this.#options, claims },
      { level: this.level, instance: key, slot, usage: this.#usage },
    )
    if (result.held) return result.outcome === 'claimed'
    if (result.outcome !== 'taken')
      throw new AllocationRefusedError(`Instance ${name} or its slot ${slot} is gone`)
    const by = parseSlotUsage(result.by)
    throw new AllocationRefusedError(
      `slot ${slot} was just taken${'node' in by ? ` by node ${by.node}` : ''}`,
    )
  }

  async #release(slot: SlotName): Promise<void> {
    // One that cannot be released now is found by the reclaimer: no container has it.
    await this.#options.cluster
      .releaseSlot(this.#instance.key, slot, this.#usage)
      .catch(() => undefined)
  }
}
