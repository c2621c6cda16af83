import { holderOf, type SlotName } from '@akrijs/api'
import type { Clock } from '@akrijs/runtime'
import type { Cluster } from '../cluster/cluster.js'
import { AllocationRefusedError } from '../errors.js'
import { inParallel } from '../instances/parallel-work.js'
import {
  type ContainerAllocation,
  containerAllocation,
  type WorkloadDirectoryMaker,
} from '../plugins/allocation.js'
import type { AgentObserver } from '../report/observer.js'
import { usageOf } from './allocation-ledger.js'
import type { ChosenSlot, Resource } from './resource.js'
import type { SlotBook } from './slot-book.js'

interface SlotClaimsOptions {
  readonly cluster: Pick<Cluster, 'claimSlot' | 'releaseSlot'>
  readonly clock: Pick<Clock, 'monotonicMs'>
  readonly book: Pick<SlotBook, 'node' | 'served' | 'allocations' | 'choose'>
  readonly observer: Pick<AgentObserver, 'claimed'>
  /** @default workloads get no directory */
  readonly directories?: WorkloadDirectoryMaker | undefined
}

/** A claim of a request that is not answered, with what its release needs. */
type NewClaim = Parameters<Cluster['releaseSlot']>

/** How often slots are chosen for one request, while other nodes claim the chosen slots first. */
const MAX_ATTEMPTS = 10

/**
 * The writes of this process to slots, one after the other. A slot that was just allocated must not
 * be lost to a release that was planned before, nor to a request that fails.
 */
export class SlotClaims {
  readonly #options: SlotClaimsOptions
  #last: Promise<unknown> = Promise.resolve()

  constructor(options: SlotClaimsOptions) {
    this.#options = options
  }

  /**
   * Claims slots for one request of the kubelet, and records their allocation.
   * @param requests the ids for each container
   * @throws AllocationRefusedError. Then no slot is claimed.
   */
  allocate(
    resource: Resource,
    requests: readonly (readonly string[])[],
  ): Promise<readonly ContainerAllocation[]> {
    const { cluster, book } = this.#options
    const claimed: NewClaim[] = []
    return this.exclusively(async () => {
      try {
        for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
          const containers = book.choose(resource, requests)
          if (await this.#claimAll(resource, containers.flat(), claimed))
            return await this.#grant(resource, containers)
        }
        throw new AllocationRefusedError(
          `other nodes claimed the chosen slots first, ${MAX_ATTEMPTS} times`,
        )
      } catch (error) {
        // After a failed release, the slot reconciler releases the slot, because no container uses
        // it. All at once: the kubelet admits no Pod meanwhile, and a cluster that is away takes
        // its time.
        await inParallel(claimed, (claim) => cluster.releaseSlot(...claim))
        throw error
      }
    })
  }

  /** Runs a write of the slot reconciler between two requests of the kubelet. */
  exclusively<T>(write: () => Promise<T>): Promise<T> {
    const written = this.#last.then(write)
    this.#last = written.catch(() => undefined)
    return written
  }

  /**
   * @param claimed gets the new claims: they stay for the next choice
   * @returns false if another node claimed a slot first, and another slot can take its place
   */
  async #claimAll(
    { level, name: resourceName }: Resource,
    chosen: readonly ChosenSlot[],
    claimed: NewClaim[],
  ): Promise<boolean> {
    const { cluster, book, observer } = this.#options
    const bySlot = new Map(chosen.map((each) => [each.slot, each]))
    for (const { slot, id, instance } of bySlot.values()) {
      const usage = usageOf({ slot, resourceName, id }, book.node)
      const result = await cluster.claimSlot(instance.key, slot, usage, instance.device.id)
      observer.claimed(level, result.outcome)
      if (result.outcome === 'claimed') {
        claimed.push([instance.key, slot, usage])
        continue
      }
      // The slot can be this node's by an earlier claim.
      if (result.outcome === 'taken' && result.by === usage) continue
      if (level === 'configuration') return false
      if (result.outcome === 'gone')
        throw new AllocationRefusedError(`Instance ${instance.name} or its slot ${slot} is gone`)
      const holder = holderOf(result.by)
      throw new AllocationRefusedError(
        `slot ${slot} was just taken${holder === undefined ? '' : ` by node ${holder}`}`,
      )
    }
    return true
  }

  /** Records the allocations of all containers, and opens a directory for each slot. */
  async #grant(
    { level, name: resourceName }: Resource,
    containers: readonly (readonly ChosenSlot[])[],
  ): Promise<readonly ContainerAllocation[]> {
    const { book, clock, directories } = this.#options
    // A claim takes its time. A device that went before the allocation shows in no list.
    for (const { instance } of containers.flat())
      if (book.served(instance.name) === undefined)
        throw new AllocationRefusedError(`the device of Instance ${instance.name} was removed`)
    // A release that was planned during the request comes after it, and finds a young claim.
    for (const { slot, id } of containers.flat())
      book.allocations.record({ slot, resourceName, id }, undefined, clock.monotonicMs())
    const opened = new Map<SlotName, string | undefined>()
    for (const { instance, slot } of containers.flat())
      if (!opened.has(slot)) opened.set(slot, await directories?.open(instance.key, slot))
    return containers.map((slots) => containerAllocation(level, slots, opened))
  }
}
