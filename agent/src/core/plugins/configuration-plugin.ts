import { formatSlotUsage, GROUP, type SlotName } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import { AllocationRefusedError } from '../../errors.js'
import type { Cluster } from '../../ports/cluster.js'
import type { AgentObserver } from '../../ports/observer.js'
import type { ServedConfiguration, ServedInstance } from '../instances/served-instance.js'
import type { AllocationLedger } from '../slots/allocation-ledger.js'
import {
  advertisedIds,
  type ChosenSlot,
  chooseSlots,
  type InstanceSlots,
  preferredIds,
} from '../slots/configuration-slots.js'
import type { RequestClaims } from '../slots/slot-claims.js'
import type { SlotTable } from '../slots/slot-table.js'
import {
  type ContainerAllocation,
  containerAllocation,
  type WorkloadDirectoryMaker,
} from './allocation.js'
import { claimSlot } from './claim-slot.js'
import type { AdvertisedDevice, PluginBehaviour, PreferenceRequest } from './plugin-behaviour.js'

export interface ConfigurationPluginOptions {
  readonly cluster: Pick<Cluster, 'claimSlot' | 'releaseSlot'>
  readonly node: NodeName
  readonly ledger: AllocationLedger
  readonly observer: AgentObserver
  readonly directories: WorkloadDirectoryMaker | undefined
  /** The Instances of the Configuration that this node serves. */
  instances(): readonly ServedInstance[]
  slotTable(instance: ServedInstance): SlotTable
}

/** What has been claimed: of which Instance, which may have gone since, and what it says of the slot. */
interface Claimed {
  readonly instance: ServedInstance['key']
  readonly usage: string
}

/** How often slots are chosen anew when other nodes are faster. */
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
    const slots = this.#slotsToGive()
    return requests.map((request) => preferredIds(slots, this.#options.node, request))
  }

  async allocate(
    requests: readonly (readonly string[])[],
    claims: RequestClaims,
  ): Promise<readonly ContainerAllocation[]> {
    const claimed = new Map<SlotName, Claimed>()
    try {
      for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
        const choice = chooseSlots(this.#slotsToGive(), this.#options.node, requests)
        if (!choice.ok) throw new AllocationRefusedError(choice.reason)
        if (await this.#claimAll(choice.containers.flat(), claims, claimed))
          return await this.#respond(choice.containers)
      }
      throw new AllocationRefusedError('other nodes were faster, each time that a slot was chosen')
    } catch (error) {
      // All or none: what was claimed for a request that fails is nobody's.
      for (const [slot, one] of claimed) await this.#release(slot, one)
      throw error
    }
  }

  #slots(): InstanceSlots[] {
    return this.#options.instances().map((served) => {
      const { nodes, slots, heldOverCapacity, usable } = this.#options.slotTable(served)
      return { instance: served.name, healthy: usable, nodes, slots, heldOverCapacity }
    })
  }

  /** What a container has is not to be given to another one, although its Instance may not say so at the moment. */
  #slotsToGive(): InstanceSlots[] {
    return this.#slots().map((of) => ({
      ...of,
      slots: this.#options.ledger.overlay(of.instance, of.slots),
    }))
  }

  /** @returns false where another one was faster; what was claimed before stays claimed for the next choice */
  async #claimAll(
    chosen: readonly ChosenSlot[],
    claims: RequestClaims,
    claimed: Map<SlotName, Claimed>,
  ): Promise<boolean> {
    for (const one of new Map(chosen.map((each) => [each.slot, each])).values()) {
      const [instance, usage] = [this.#keyOf(one), this.#usageOf(one)]
      const { held, outcome } = await claimSlot(
        { ...this.#options, claims },
        { level: this.level, instance, slot: one.slot, usage },
      )
      if (!held) return false
      if (outcome === 'claimed') claimed.set(one.slot, { instance, usage })
    }
    return true
  }

  async #release(slot: SlotName, { instance, usage }: Claimed): Promise<void> {
    // One that cannot be released now is found by the reclaimer: no container has it.
    await this.#options.cluster.releaseSlot(instance, slot, usage).catch(() => undefined)
  }

  #usageOf({ id }: ChosenSlot): string {
    return formatSlotUsage({ level: 'configuration', virtualId: id, node: this.#options.node })
  }

  #keyOf({ instance }: ChosenSlot): ServedInstance['key'] {
    return this.#servedOf(instance).key
  }

  #servedOf(instance: ChosenSlot['instance']): ServedInstance {
    const served = this.#options.instances().find(({ name }) => name === instance)
    if (served === undefined) throw new AllocationRefusedError(`Instance ${instance} has just gone`)
    return served
  }

  async #respond(
    containers: readonly (readonly ChosenSlot[])[],
  ): Promise<readonly ContainerAllocation[]> {
    const { directories, ledger } = this.#options
    for (const { slot, id } of containers.flat())
      ledger.record({ slot, resourceName: this.resourceName, id })
    const paths = new Map<SlotName, string | undefined>()
    for (const one of new Map(containers.flat().map((each) => [each.slot, each])).values())
      paths.set(one.slot, await directories?.open(this.#keyOf(one), one.slot))
    return containers.map((chosen) =>
      containerAllocation(
        chosen.map(({ id, instance, slot }) => ({
          instance: this.#servedOf(instance),
          slot,
          annotation: `C:${id}:${slot}`,
          directory: paths.get(slot),
        })),
      ),
    )
  }
}
