import {
  GROUP,
  heldSlots,
  holderOf,
  type Instance,
  parseSlotUsage,
  type SlotName,
} from '@akrijs/api'
import { keyOf, type NodeName, type ObjectKey } from '@akrijs/kube/objects'
import type { Clock, Logger } from '@akrijs/runtime'
import type { Cluster } from '../../ports/cluster.js'
import type { Allocations, Kubelet, PodAllocation } from '../../ports/kubelet.js'
import { type AgentObserver, noopObserver } from '../../ports/observer.js'
import { allocatedSlots } from './allocated-slots.js'
import { type AllocationLedger, isPodActive, type SlotAllocation } from './allocation-ledger.js'
import { ClaimReporter, type UnresolvedId } from './claim-reporter.js'
import { type LostClaim, lostClaims } from './lost-claims.js'
import { RestoreBackoff } from './restore-backoff.js'
import type { SlotClaims } from './slot-claims.js'

export interface SlotReconcilerOptions {
  readonly cluster: Pick<
    Cluster,
    'configurations' | 'instances' | 'restoreSlot' | 'releaseSlot' | 'recordEvent'
  >
  readonly kubelet: Pick<Kubelet, 'listAllocated' | 'pods'>
  readonly node: NodeName
  readonly clock: Clock
  readonly log: Logger
  readonly claims: SlotClaims
  readonly ledger: AllocationLedger
  /**
   * How long no container may have a slot before it is taken back, where nobody watches Pods or its Pod is still there, in
   * milliseconds. @default 20000
   */
  readonly graceMs?: number
  /** How often this is looked at, in milliseconds. @default 10000 */
  readonly intervalMs?: number
  /** @default nobody */
  readonly observer?: AgentObserver
  /** To be done before a slot is freed: then its workload is somebody's for the last time. Must not reject. @default nothing */
  readonly beforeRelease?: (key: ObjectKey, slot: SlotName) => Promise<void>
}

/** After a Pod went, how often is looked whether the kubelet has forgotten it too, and for how long, in milliseconds. */
const SOON_MS = 250
const LEAVING_MS = 60_000
/** When it is looked again for lost claims where the kubelet could not be asked, in milliseconds. */
const RETRY_MS = 1000
/** How long is waited for the first look, in milliseconds. */
const FIRST_LOOK_MS = 1000

/** What one question to the kubelet has told. */
interface Look {
  readonly asked: number
  readonly allocated: Allocations
  readonly held: readonly KnownSlot[]
  /** The ids of which nobody knows what they stand for. */
  readonly unknown: readonly UnresolvedId[]
}

/** A slot that this node holds, or would hold if its Instance were what it was. */
interface KnownSlot extends SlotAllocation {
  /** As the Instance says it; undefined where it does not. */
  readonly held: { readonly key: ObjectKey; readonly usage: string } | undefined
}

/**
 * Makes what Instances say of the slots of this node follow what its containers have, both ways.
 *
 * A slot that no container has any more is taken back. The kubelet never says that a container has ended, but it lists the
 * ids that containers hold. A slot that is not listed may be of a container that is about to start, that waits to be started
 * again, or, of an init container, is never listed: while a Pod is there with fewer ids than its containers may have, none is
 * taken back that was its, or of which nobody knows whose it was. One whose Pod is there with all that it may have is taken back
 * after a grace period; and so is every one where nobody watches Pods.
 *
 * A slot that a container has is claimed again where its Instance does not say so any more: it was deleted and made anew,
 * with its Configuration or alone, or somebody has freed the slot. Until then another node could give it to a second container.
 * Each node does so for its own containers only: nobody else knows when they end.
 */
export class SlotReconciler {
  readonly #options: Required<SlotReconcilerOptions>
  /** Since when a slot has not been listed by the id by which it was given. */
  readonly #unlistedSince = new Map<string, number>()
  readonly #trouble: ClaimReporter
  readonly #pace: RestoreBackoff
  #wake = new AbortController()
  /** When a Pod was last seen to go. */
  #goneAt = Number.NEGATIVE_INFINITY
  /** When it is to be looked again, should nothing happen before. */
  #lookAt = 0

  constructor(options: SlotReconcilerOptions) {
    this.#options = {
      graceMs: 20_000,
      intervalMs: 10_000,
      observer: noopObserver,
      beforeRelease: async () => {},
      ...options,
    }
    this.#trouble = new ClaimReporter(this.#options)
    this.#pace = new RestoreBackoff(options.clock)
  }

  /**
   * Asks the kubelet once, before anything is offered: what containers have is not to be given to others only because no
   * Instance says so. Resolves after a second in any case: a kubelet that cannot be asked may still come.
   */
  async begin(signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#options
    const late = new AbortController()
    const either = AbortSignal.any([signal, late.signal])
    const learning = this.#learn(either).catch((error: unknown) => {
      if (!signal.aborted) log.warn({ err: error }, 'it is not known yet which slots are used')
    })
    const waiting = clock.sleep(FIRST_LOOK_MS, either).catch(() => undefined)
    await Promise.race([learning, waiting])
    late.abort()
    await Promise.all([learning, waiting])
  }

  async run(signal: AbortSignal): Promise<void> {
    const { cluster, kubelet, node, clock, intervalMs, log, ledger } = this.#options
    kubelet.pods?.onGone(() => {
      this.#goneAt = clock.monotonicMs()
      this.#lookBy(clock.monotonicMs())
    }, signal)
    cluster.instances.onChange((key) => this.#instanceChanged(key), signal)
    signal.addEventListener('abort', () => this.#wake.abort(), { once: true })
    while (!signal.aborted) {
      this.#lookAt = clock.monotonicMs() + intervalMs
      await this.round(signal).catch((error: unknown) => {
        if (signal.aborted) return
        log.warn({ err: error }, 'cannot look for unused slots')
        if (lostClaims(ledger.inUse(), cluster.instances.list(), node).length > 0)
          this.#lookBy(clock.monotonicMs() + RETRY_MS)
      })
      while (!signal.aborted && this.#lookAt > clock.monotonicMs()) {
        this.#wake = new AbortController()
        await clock
          .sleep(this.#lookAt - clock.monotonicMs(), this.#wake.signal)
          .catch(() => undefined)
      }
    }
  }

  /** One look. Rejects where the kubelet or the cluster cannot be asked; then nothing is known and nothing has changed. */
  async round(signal: AbortSignal): Promise<void> {
    this.#options.log.debug({}, 'reclaiming unused slots - start')
    const look = await this.#learn(signal)
    await this.#releaseUnused(look)
    await this.#restoreLost(look.unknown)
  }

  #instanceChanged(key: ObjectKey): void {
    const { cluster, clock, ledger, node } = this.#options
    const instance = cluster.instances.get(key)
    if (instance === undefined) return
    for (const { given: one, takenBy } of lostClaims(
      ledger.inUse(instance.metadata.name),
      [instance],
      node,
    ))
      if (takenBy === undefined)
        this.#lookBy(Math.max(clock.monotonicMs(), this.#pace.dueAt(one.slot)))
  }

  #lookBy(time: number): void {
    if (time >= this.#lookAt) return
    this.#lookAt = time
    this.#wake.abort()
  }

  /** Asks what containers have, and remembers which slots these are. */
  async #learn(signal: AbortSignal): Promise<Look> {
    const { cluster, kubelet, clock, ledger, claims } = this.#options
    const asked = clock.monotonicMs()
    const allocated = await kubelet.listAllocated(signal)
    const held = cluster.instances.list().flatMap((instance) => this.#heldBy(instance))
    const { known, unknown } = allocatedSlots({
      allocated,
      held,
      configurations: cluster.configurations.list(),
      slotOf: (resourceName, id) => ledger.slotOf(resourceName, id),
      isThere: (pod, resourceName) => isPodActive(kubelet.pods, pod, resourceName),
    })
    for (const { given: one, users } of known) {
      // Given to another one since the kubelet was asked: who has it now is not in the answer.
      if ((claims.lastClaimed(one.slot) ?? Number.NEGATIVE_INFINITY) < asked)
        ledger.recordUsers(one, users)
    }
    return { asked, allocated, held, unknown }
  }

  async #releaseUnused({ asked, allocated, held }: Look): Promise<void> {
    const { kubelet, log, ledger } = this.#options
    const heldNow = new Set(held.map(placeOf))
    const lost = ledger.list().filter((one) => !heldNow.has(placeOf(one)))
    const known = [...held, ...lost.map((one): KnownSlot => ({ ...one, held: undefined }))]

    const stillKnown = new Set(known.map(placeOf))
    for (const place of this.#unlistedSince.keys())
      if (!stillKnown.has(place)) this.#unlistedSince.delete(place)

    for (const one of known) {
      const pod = this.#podOf(one, allocated)
      if (pod !== undefined) {
        this.#unlistedSince.delete(placeOf(one))
        // The Pod has gone, and the kubelet is still busy with what is left of it.
        const leaving =
          kubelet.pods?.synced === true && !kubelet.pods.users(one.resourceName).has(pod)
        if (leaving && asked - this.#goneAt < LEAVING_MS) this.#lookBy(asked + SOON_MS)
        continue
      }
      const freeAt = this.#freeAt(one, allocated, asked)
      if (freeAt > asked) {
        this.#lookBy(freeAt)
        continue
      }
      await this.#release(one, asked).catch((error: unknown) => {
        log.warn({ slot: one.slot, err: error }, 'slot cannot be reclaimed')
      })
    }
  }

  /** From when on a slot that no container is known to have is nobody's, as far as is known now. */
  #freeAt(one: SlotAllocation, allocated: Allocations, asked: number): number {
    const { kubelet, claims, ledger } = this.#options
    const claimed = claims.lastClaimed(one.slot) ?? 0
    if (kubelet.pods?.synced !== true) return this.#afterGrace(one, asked, claimed)
    const seen = ledger.usersOf(one)
    // Where it has been seen, it is of these; else it may be of any.
    const users = [...kubelet.pods.users(one.resourceName)].filter(
      ([pod]) => seen === undefined || seen.has(pod),
    )
    // Its container may be about to start, or to start again; or it runs and is one that nobody lists.
    if (users.some(([pod, most]) => idsOf(pod, allocated.get(one.resourceName)) < most))
      return Number.POSITIVE_INFINITY
    if (seen !== undefined && users.length > 0) return this.#afterGrace(one, asked, claimed)
    // One millisecond more: a claim of the moment in which the kubelet was asked may be younger than its answer.
    return claimed + kubelet.pods.lagMs + 1
  }

  /** A claim, also of a slot that this node held already, gives its container the whole grace to start. */
  #afterGrace(one: SlotAllocation, asked: number, claimed: number): number {
    const since = Math.max(this.#unlistedSince.get(placeOf(one)) ?? asked, claimed)
    this.#unlistedSince.set(placeOf(one), since)
    return since + this.#options.graceMs
  }

  /** The Pod whose container has the slot. */
  #podOf({ resourceName, id }: SlotAllocation, allocated: Allocations): ObjectKey | undefined {
    const { pods } = this.#options.kubelet
    return (allocated.get(resourceName) ?? []).find(
      ({ pod, ids }) => ids.has(id) && pods?.hasEnded(pod) !== true,
    )?.pod
  }

  async #release(one: KnownSlot, asked: number): Promise<void> {
    const { cluster, claims, ledger, log, observer, beforeRelease } = this.#options
    const { slot, held } = one
    const outcome = await claims.release(slot, asked, async () => {
      // Before the Instance says so: it must not look like a claim that was lost.
      ledger.remove(one)
      if (held === undefined) return 'forgotten'
      await beforeRelease(held.key, slot)
      return cluster.releaseSlot(held.key, slot, held.usage)
    })
    if (outcome === undefined) return
    this.#unlistedSince.delete(placeOf(one))
    if (held === undefined) return
    // Another look of ours may have been faster, or somebody has edited it.
    if (outcome !== 'released')
      return log.debug(
        { slot, usage: held.usage, outcome },
        'slot was not ours to reclaim any more',
      )
    observer.reclaimed()
    log.info({ slot, usage: held.usage }, 'slot reclaimed')
  }

  async #restoreLost(unknown: readonly UnresolvedId[]): Promise<void> {
    const { cluster, kubelet, clock, log, ledger, node } = this.#options
    const lost = lostClaims(ledger.inUse(), cluster.instances.list(), node)
    if (kubelet.pods?.synced === false) {
      // Who has ended is not known yet.
      if (lost.length > 0) this.#lookBy(clock.monotonicMs() + SOON_MS)
      return
    }
    for (const one of unknown) this.#trouble.unknown(one)
    for (const one of lost) {
      const { slot } = one.given
      if (one.takenBy !== undefined) this.#trouble.taken(one, one.takenBy)
      else {
        if (this.#pace.dueAt(slot) <= clock.monotonicMs()) {
          this.#pace.recordAttempt(slot)
          await this.#restore(one).catch((error: unknown) => {
            log.warn({ slot, err: error }, 'slot cannot be claimed again now')
          })
        }
        this.#lookBy(this.#pace.dueAt(slot))
      }
    }
    this.#trouble.endOfLook()
  }

  async #restore(lost: LostClaim): Promise<void> {
    const { cluster, claims, ledger, log, observer } = this.#options
    const { given: one, key, usage } = lost
    const claim = await claims.restore(one.slot, async () =>
      ledger.has(one) ? cluster.restoreSlot(key, one.slot, usage) : undefined,
    )
    if (claim?.outcome !== 'claimed') {
      // Somebody was faster, and what they wrote is seen next time.
      if (claim !== undefined) log.debug({ slot: one.slot, ...claim }, 'slot not claimed again')
      return
    }
    observer.restored('restored')
    log.warn(
      { slot: one.slot, usage },
      'a container has this slot, and its Instance did not say so: claimed again',
    )
    const { deviceUsage = {}, capacity = 0 } = cluster.instances.get(key)?.spec ?? {}
    const held = heldSlots(deviceUsage)
    if (held > capacity) this.#trouble.beyond(lost, held, capacity)
  }

  #heldBy(instance: Instance): KnownSlot[] {
    const key = keyOf(instance)
    return Object.entries(instance.spec.deviceUsage)
      .filter(([, usage]) => holderOf(usage) === this.#options.node)
      .map(([name, usage]) => {
        const slot = name as SlotName
        const parsed = parseSlotUsage(usage)
        const held = { key, usage }
        return parsed.level === 'configuration'
          ? {
              slot,
              held,
              resourceName: `${GROUP}/${instance.spec.configurationName}`,
              id: parsed.virtualId,
            }
          : { slot, held, resourceName: `${GROUP}/${instance.metadata.name}`, id: slot }
      })
  }
}

/** How many ids the containers of a Pod have. */
function idsOf(pod: ObjectKey, allocated: readonly PodAllocation[] = []): number {
  return new Set(allocated.flatMap((one) => (one.pod === pod ? [...one.ids] : []))).size
}

function placeOf({ slot, resourceName, id }: SlotAllocation): string {
  return `${slot} ${resourceName} ${id}`
}
