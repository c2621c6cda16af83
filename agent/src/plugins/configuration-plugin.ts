import {
  type Compatibility,
  type ConfigurationName,
  formatSlotUsage,
  GROUP,
  type InstanceName,
} from '@akrijs/api'
import { AllocationRefusedError } from '../errors.js'
import type { ServedInstance } from '../instances/served-instance.js'
import {
  advertisedIds,
  type ChosenSlot,
  chooseSlots,
  preferredIds,
} from '../slots/configuration-slots.js'
import type { PreferenceRequest } from '../slots/offer.js'
import type { ClaimSlot } from '../slots/slot-claims.js'
import { type VirtualIds, virtualIds } from '../slots/virtual-ids.js'
import { type ContainerAllocation, grantSlots } from './allocation.js'
import type { AdvertisedDevice, PluginBehaviour, PluginOptions } from './plugin-behaviour.js'

interface ConfigurationPluginOptions extends PluginOptions {
  /** The other system that reads the ids of claims. @default off */
  readonly compatibility?: Compatibility | undefined
}

/** How often slots are chosen for one request, while other nodes claim the chosen slots first. */
const MAX_ATTEMPTS = 10

/** The resource of a Configuration: any of its devices. */
export class ConfigurationPlugin implements PluginBehaviour {
  readonly level = 'configuration'
  readonly resourceName: string
  readonly #name: ConfigurationName
  readonly #options: ConfigurationPluginOptions
  readonly #virtualIds: VirtualIds

  constructor(name: ConfigurationName, options: ConfigurationPluginOptions) {
    this.resourceName = `${GROUP}/${name}`
    this.#name = name
    this.#options = options
    this.#virtualIds = virtualIds(name, options.compatibility ?? 'off')
  }

  advertise(): readonly AdvertisedDevice[] {
    return advertisedIds(this.#options.book.all(this.#name), this.#inUse(), this.#virtualIds)
  }

  prefer(requests: readonly PreferenceRequest[]): readonly (readonly string[])[] {
    const slots = this.#options.book.all(this.#name)
    return requests.map((request) => preferredIds(slots, request, this.#virtualIds))
  }

  allocate(requests: readonly (readonly string[])[]): Promise<readonly ContainerAllocation[]> {
    const { book, claims } = this.#options
    return claims.forRequest(this.level, async (claim) => {
      for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
        const choice = chooseSlots(book.all(this.#name), requests, this.#virtualIds)
        if (!choice.ok) throw new AllocationRefusedError(choice.reason)
        if (await this.#claimAll(choice.containers.flat(), claim))
          return this.#grant(choice.containers)
      }
      throw new AllocationRefusedError(
        `other nodes claimed the chosen slots first, ${MAX_ATTEMPTS} times`,
      )
    })
  }

  /**
   * The ids of containers whose devices cannot be allocated, and whether the device is there. The
   * kubelet keeps them until the Pods end, and shows the health of each in the status of its Pod.
   */
  #inUse(): ReadonlyMap<string, boolean> {
    const { book } = this.#options
    const inUse = new Map<string, boolean>()
    const add = (name: InstanceName, isThere: boolean) => {
      for (const { resourceName, id } of book.allocations.inUse(name))
        if (resourceName === this.resourceName) inUse.set(id, isThere)
    }
    for (const name of book.lost(this.#name)) add(name, false)
    for (const { served, usable } of book.all(this.#name))
      if (served.healthy && !usable) add(served.name, true)
    return inUse
  }

  /**
   * @returns false if another node claimed a slot first. The claims so far stay for the next
   * choice.
   */
  async #claimAll(chosen: readonly ChosenSlot[], claim: ClaimSlot): Promise<boolean> {
    const { node } = this.#options
    for (const { id, instance, slot } of new Map(
      chosen.map((each) => [each.slot, each]),
    ).values()) {
      const usage = formatSlotUsage({ level: 'configuration', virtualId: id, node })
      const { key, device } = this.#served(instance)
      const { held } = await claim({ instance: key, slot, usage, device: device.id })
      if (!held) return false
    }
    return true
  }

  #grant(containers: readonly (readonly ChosenSlot[])[]): Promise<ContainerAllocation[]> {
    return grantSlots(
      containers.map((chosen) =>
        chosen.map(({ id, instance, slot }) => ({
          instance: this.#served(instance),
          slot,
          id,
          annotation: `C:${id}:${slot}`,
        })),
      ),
      this.resourceName,
      this.#options,
    )
  }

  #served(name: InstanceName): ServedInstance {
    const served = this.#options.book.of(name)?.served
    if (served === undefined) throw new AllocationRefusedError(`Instance ${name} was removed`)
    return served
  }
}
