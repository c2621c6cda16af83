import { formatSlotUsage, GROUP } from '@akrijs/api'
import { AllocationRefusedError } from '../../errors.js'
import type { ServedConfiguration, ServedInstance } from '../instances/served-instance.js'
import {
  advertisedIds,
  type ChosenSlot,
  chooseSlots,
  type InstanceSlots,
  preferredIds,
} from '../slots/configuration-slots.js'
import type { PreferenceRequest } from '../slots/offer.js'
import type { RequestClaims } from '../slots/slot-claims.js'
import { type ContainerAllocation, grantSlots } from './allocation.js'
import { type ClaimSlot, claimAllOrNone } from './claim-slots.js'
import type { AdvertisedDevice, PluginBehaviour, PluginOptions } from './plugin-behaviour.js'

interface ConfigurationPluginOptions extends PluginOptions {
  /** The Instances of the Configuration that this node serves. */
  instances(): readonly ServedInstance[]
}

/** How often slots are chosen for one request, while other nodes claim the chosen slots first. */
const MAX_ATTEMPTS = 10

/** The resource of a Configuration: any of its devices. */
export class ConfigurationPlugin implements PluginBehaviour {
  readonly level = 'configuration'
  readonly resourceName: string
  readonly #options: ConfigurationPluginOptions

  constructor({ name }: ServedConfiguration, options: ConfigurationPluginOptions) {
    this.resourceName = `${GROUP}/${name}`
    this.#options = options
  }

  advertise(): AdvertisedDevice[] {
    return advertisedIds(this.#slots(), this.#options.node)
  }

  prefer(requests: readonly PreferenceRequest[]): readonly (readonly string[])[] {
    const slots = this.#allocatableSlots()
    return requests.map((request) => preferredIds(slots, this.#options.node, request))
  }

  allocate(
    requests: readonly (readonly string[])[],
    claims: RequestClaims,
  ): Promise<readonly ContainerAllocation[]> {
    const { node } = this.#options
    return claimAllOrNone({ ...this.#options, claims, level: this.level }, async (claim) => {
      for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
        const choice = chooseSlots(this.#allocatableSlots(), node, requests)
        if (!choice.ok) throw new AllocationRefusedError(choice.reason)
        if (await this.#claimAll(choice.containers.flat(), claim))
          return this.#grant(choice.containers)
      }
      throw new AllocationRefusedError(
        `other nodes claimed the chosen slots first, ${MAX_ATTEMPTS} times`,
      )
    })
  }

  #slots(): InstanceSlots[] {
    return this.#options.instances().map((served) => {
      const { nodes, slots, heldOverCapacity, usable } = this.#options.slotTable(served)
      return { instance: served.name, healthy: usable, nodes, slots, heldOverCapacity }
    })
  }

  /**
   * The slot of a running container is not allocatable, even if the Instance has lost its claim.
   */
  #allocatableSlots(): InstanceSlots[] {
    return this.#slots().map((each) => ({
      ...each,
      slots: this.#options.ledger.overlay(each.instance, each.slots),
    }))
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
      const { held } = await claim({ instance: this.#served(instance).key, slot, usage })
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

  #served(name: ChosenSlot['instance']): ServedInstance {
    const served = this.#options.instances().find((instance) => instance.name === name)
    if (served === undefined) throw new AllocationRefusedError(`Instance ${name} was removed`)
    return served
  }
}
