import { type InstanceName, parseSlotUsage, type SlotName, slotIndex } from '@akrijs/api'
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
import { type AllocationLedger, usageOf } from './allocation-ledger.js'
import type { ChosenSlot, Resource } from './resource.js'
import type { SlotBook } from './slot-book.js'

interface SlotClaimsOptions {
  readonly cluster: Pick<Cluster, 'claimSlot' | 'releaseSlot'>
  readonly clock: Pick<Clock, 'monotonicMs'>
  readonly book: Pick<SlotBook, 'node' | 'served'> & {
    readonly allocations: Pick<AllocationLedger, 'record'>
  }
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
  readonly #claimedAt = new Map<SlotName, number>()
  /** The slots of the request that is not answered. */
  readonly #pending = new Set<SlotName>()
  #last: Promise<unknown> = Promise.resolve()

  constructor(options: SlotClaimsOptions) {
    this.#options = options
  }

  /**
   * Claims slots for one request of the kubelet, and records their allocation. Its slots count as
   * claimed now until the request is answered: the kubelet lists none of them before, and the API
   * server may be slow for the others.
   * @param requests the ids for each container
   * @throws AllocationRefusedError. Then no slot is claimed.
   */
  allocate(
    resource: Resource,
    requests: readonly (readonly string[])[],
  ): Promise<readonly ContainerAllocation[]> {
    const { cluster, clock } = this.#options
    const claimed: NewClaim[] = []
    return this.exclusively(async () => {
      try {
        for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
          const containers = resource.choose(requests)
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
      } finally {
        for (const slot of this.#pending) this.#claimedAt.set(slot, clock.monotonicMs())
        this.#pending.clear()
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
   * Monotonic time of the last claim: now during a request; undefined if this process has not
   * claimed the slot. A restore is no claim, because no container starts with it.
   */
  lastClaimed(slot: SlotName): number | undefined {
    const { clock } = this.#options
    return this.#pending.has(slot) ? clock.monotonicMs() : this.#claimedAt.get(slot)
  }

  /** Forgets the times of slots that no longer exist. */
  forget(instance: InstanceName): void {
    for (const slot of this.#claimedAt.keys())
      if (slotIndex(instance, slot) !== undefined) this.#claimedAt.delete(slot)
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
      // Before the claim is written: a reconcile that finds the claim must see that it is young.
      this.#pending.add(slot)
      const result = await cluster.claimSlot(instance.key, slot, usage, instance.device.id)
      observer.claimed(level, result.outcome)
      // The slot can be this node's by an earlier claim.
      const isHeld = result.outcome === 'taken' && result.by === usage
      if (result.outcome === 'claimed') claimed.push([instance.key, slot, usage])
      else if (!isHeld) {
        if (level === 'configuration') return false
        throw new AllocationRefusedError(
          result.outcome === 'taken'
            ? `slot ${slot} was just taken${byNode(result.by)}`
            : `Instance ${instance.name} or its slot ${slot} is gone`,
        )
      }
    }
    return true
  }

  /** Records the allocations of all containers, and opens a directory for each slot. */
  async #grant(
    { level, name: resourceName }: Resource,
    containers: readonly (readonly ChosenSlot[])[],
  ): Promise<readonly ContainerAllocation[]> {
    const { book, directories } = this.#options
    // A claim takes its time. A device that went before the allocation shows in no list.
    for (const { instance } of containers.flat())
      if (book.served(instance.name) === undefined)
        throw new AllocationRefusedError(`the device of Instance ${instance.name} was removed`)
    const opened = new Map<SlotName, string | undefined>()
    for (const { slot, id } of containers.flat())
      book.allocations.record({ slot, resourceName, id })
    for (const { instance, slot } of containers.flat())
      if (!opened.has(slot)) opened.set(slot, await directories?.open(instance.key, slot))
    return containers.map((slots) => containerAllocation(level, slots, opened))
  }
}

function byNode(claim: string): string {
  const usage = parseSlotUsage(claim)
  return 'node' in usage ? ` by node ${usage.node}` : ''
}
