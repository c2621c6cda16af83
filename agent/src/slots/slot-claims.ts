import type { SlotName } from '@akrijs/api'
import type { ObjectKey } from '@akrijs/kube/objects'
import type { Clock } from '@akrijs/runtime'
import type { Cluster, SlotClaim } from '../cluster/cluster.js'
import { inParallel } from '../instances/parallel-work.js'
import type { WorkloadDirectoryMaker } from '../plugins/allocation.js'
import type { AgentObserver, PluginLevel } from '../report/observer.js'

interface SlotClaimsOptions {
  readonly cluster: Pick<Cluster, 'claimSlot' | 'releaseSlot'>
  readonly clock: Pick<Clock, 'monotonicMs'>
  readonly observer: Pick<AgentObserver, 'claimed'>
  /** @default workloads get no directory */
  readonly directories?: Omit<WorkloadDirectoryMaker, 'open'> | undefined
}

interface SlotToClaim {
  readonly instance: ObjectKey
  readonly slot: SlotName
  readonly usage: string
  /** The id of the device that the container gets. */
  readonly device: string
}

/** `held`: this node holds the slot with that usage now, by this claim or by an earlier one. */
export type ClaimSlot = (target: SlotToClaim) => Promise<SlotClaim & { readonly held: boolean }>

/**
 * The writes of this process to slots: one request of the kubelet after the other, and one write of
 * a slot at a time. A slot that was just allocated must not be lost to a release that was planned
 * before, nor to a request that fails.
 */
export class SlotClaims {
  readonly #options: SlotClaimsOptions
  readonly #claimedAt = new Map<SlotName, number>()
  /** The slots of the request that is not answered. */
  readonly #pending = new Set<SlotName>()
  readonly #writes = new Map<SlotName, Promise<unknown>>()
  #requests: Promise<unknown> = Promise.resolve()

  constructor(options: SlotClaimsOptions) {
    this.#options = options
  }

  /**
   * Runs one request of the kubelet. If it rejects, its claims are released. Its slots count as
   * claimed now until the request is answered: the kubelet lists none of them before, and the API
   * server may be slow for the others.
   */
  forRequest<T>(level: PluginLevel, request: (claim: ClaimSlot) => Promise<T>): Promise<T> {
    const answer = this.#requests.then(() => this.#allOrNone(level, request))
    this.#requests = answer.catch(() => undefined)
    return answer
  }

  /** Releases the slot, unless it was claimed at `since` or later. @returns undefined if it was */
  release<T>(slot: SlotName, since: number, work: () => Promise<T>): Promise<T | undefined> {
    return this.#write(slot, async () =>
      (this.lastClaimed(slot) ?? Number.NEGATIVE_INFINITY) >= since ? undefined : work(),
    )
  }

  /**
   * Restores a lost claim. The time of the last claim stays, because no container starts with the
   * restore.
   */
  restore<T>(slot: SlotName, work: () => Promise<T>): Promise<T> {
    return this.#write(slot, work)
  }

  /**
   * Monotonic time of the last claim: now during a request; undefined if this process has not
   * claimed the slot.
   */
  lastClaimed(slot: SlotName): number | undefined {
    const { clock } = this.#options
    return this.#pending.has(slot) ? clock.monotonicMs() : this.#claimedAt.get(slot)
  }

  /** Forgets the times of slots that no longer exist. */
  forget(isGone: (slot: SlotName) => boolean): void {
    for (const slot of [...this.#claimedAt.keys()]) if (isGone(slot)) this.#claimedAt.delete(slot)
  }

  async #allOrNone<T>(level: PluginLevel, request: (claim: ClaimSlot) => Promise<T>): Promise<T> {
    const { cluster, clock, directories } = this.#options
    const claimed: SlotToClaim[] = []
    try {
      return await request(async (target) => {
        // Before the claim is written: a reconcile that finds the claim must see that it is young.
        this.#pending.add(target.slot)
        const result = await this.#claim(level, target)
        if (result.outcome === 'claimed') claimed.push(target)
        return result
      })
    } catch (error) {
      // After a failed release, the slot reconciler releases the slot, because no container uses
      // it. All at once: the kubelet admits no Pod meanwhile, and a cluster that is away takes its
      // time.
      await inParallel(claimed, async ({ instance, slot, usage }) => {
        await cluster.releaseSlot(instance, slot, usage).catch(() => undefined)
        directories?.discard(instance, slot)
      })
      throw error
    } finally {
      for (const slot of this.#pending) this.#claimedAt.set(slot, clock.monotonicMs())
      this.#pending.clear()
    }
  }

  /**
   * Claims a slot, and prepares its directory at the same time: the kubelet waits for both, and
   * each waits for a disk.
   */
  async #claim(
    level: PluginLevel,
    { instance, slot, usage, device }: SlotToClaim,
  ): Promise<SlotClaim & { readonly held: boolean }> {
    const { cluster, observer, directories } = this.#options
    directories?.prepare(instance, slot)
    let held = false
    try {
      const result = await this.#write(slot, () => cluster.claimSlot(instance, slot, usage, device))
      observer.claimed(level, result.outcome)
      held = result.outcome === 'claimed' || (result.outcome === 'taken' && result.by === usage)
      return { ...result, held }
    } finally {
      if (!held) directories?.discard(instance, slot)
    }
  }

  #write<T>(slot: SlotName, work: () => Promise<T>): Promise<T> {
    const result = (this.#writes.get(slot) ?? Promise.resolve()).then(work)
    const settled = result.catch(() => undefined)
    this.#writes.set(slot, settled)
    void settled.then(() => {
      if (this.#writes.get(slot) === settled) this.#writes.delete(slot)
    })
    return result
  }
}
