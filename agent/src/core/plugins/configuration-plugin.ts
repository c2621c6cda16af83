import { type Compatibility, formatSlotUsage, GROUP, type InstanceName } from '@akrijs/api'
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
import { type VirtualIds, virtualIds } from '../slots/virtual-ids.js'
import { type ContainerAllocation, grantSlots } from './allocation.js'
import { type ClaimSlot, claimAllOrNone } from './claim-slots.js'
import type { ConfigurationInstances } from './configuration-instances.js'
import type { AdvertisedDevice, PluginBehaviour, PluginOptions } from './plugin-behaviour.js'

interface ConfigurationPluginOptions extends Omit<PluginOptions, 'slotTable'> {
  readonly instances: ConfigurationInstances
  /** The other system that reads the ids of claims. @default off */
  readonly compatibility?: Compatibility | undefined
}

/** A list, and what it was made of. */
interface Advertised {
  readonly by: readonly InstanceSlots[]
  readonly inUse: ReadonlyMap<string, boolean>
  readonly ids: readonly AdvertisedDevice[]
}

/** How often slots are chosen for one request, while other nodes claim the chosen slots first. */
const MAX_ATTEMPTS = 10

/** The resource of a Configuration: any of its devices. */
export class ConfigurationPlugin implements PluginBehaviour {
  readonly level = 'configuration'
  readonly resourceName: string
  readonly #options: ConfigurationPluginOptions
  readonly #virtualIds: VirtualIds
  #advertised: Advertised | undefined

  constructor({ name }: ServedConfiguration, options: ConfigurationPluginOptions) {
    this.resourceName = `${GROUP}/${name}`
    this.#options = options
    this.#virtualIds = virtualIds(name, options.compatibility ?? 'off')
  }

  /** The same list until the slots or the ids of `#inUse` change. */
  advertise(): readonly AdvertisedDevice[] {
    const { instances, node } = this.#options
    const { slots } = instances
    const inUse = this.#inUse()
    const last = this.#advertised
    if (last?.by === slots && isSame(last.inUse, inUse)) return last.ids
    const ids = advertisedIds(slots, node, inUse, this.#virtualIds)
    this.#advertised = { by: slots, inUse, ids }
    return this.#advertised.ids
  }

  prefer(requests: readonly PreferenceRequest[]): readonly (readonly string[])[] {
    const slots = this.#allocatableSlots()
    return requests.map((request) =>
      preferredIds(slots, this.#options.node, request, this.#virtualIds),
    )
  }

  allocate(
    requests: readonly (readonly string[])[],
    claims: RequestClaims,
  ): Promise<readonly ContainerAllocation[]> {
    const { node } = this.#options
    return claimAllOrNone({ ...this.#options, claims, level: this.level }, async (claim) => {
      for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
        const choice = chooseSlots(this.#allocatableSlots(), node, requests, this.#virtualIds)
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
    const { instances, ledger } = this.#options
    const idsOf = (name: InstanceName) =>
      ledger
        .inUse(name)
        .flatMap(({ resourceName, id }) => (resourceName === this.resourceName ? id : []))
    const inUse = new Map<string, boolean>()
    for (const name of instances.lost) for (const id of idsOf(name)) inUse.set(id, false)
    for (const name of instances.awaited) for (const id of idsOf(name)) inUse.set(id, true)
    return inUse
  }

  /**
   * The slot of a running container is not allocatable, even if the Instance has lost its claim.
   */
  #allocatableSlots(): InstanceSlots[] {
    const { instances, ledger } = this.#options
    return instances.slots.map((each) => {
      const slots = ledger.overlay(each.instance, each.slots)
      return slots === each.slots ? each : { ...each, slots }
    })
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

  #served(name: ChosenSlot['instance']): ServedInstance {
    const served = this.#options.instances.get(name)
    if (served === undefined) throw new AllocationRefusedError(`Instance ${name} was removed`)
    return served
  }
}

function isSame(a: ReadonlyMap<string, boolean>, b: ReadonlyMap<string, boolean>): boolean {
  return a.size === b.size && [...a].every(([id, isThere]) => b.get(id) === isThere)
}
