import {
  GROUP,
  holderOf,
  type Instance,
  type InstanceName,
  keyOf,
  type NodeName,
  type ObjectKey,
  parseSlotUsage,
  type SlotName,
  slotIndex,
} from '@akrijs/kube'
import { type Clock, type Logger, messageOf } from '@akrijs/sdk'
import type { ServedInstance } from '../instances/served-instance.js'
import { type AgentObserver, nobodyObserves } from '../observer.js'
import type { Cluster } from '../ports/cluster.js'
import type { Allocations, Kubelet } from '../ports/kubelet.js'
import { ClaimTrouble, type UnknownId } from './claim-trouble.js'
import { ForeignClaims } from './foreign-claims.js'
import { type GivenSlot, type GivenSlots, usageOf } from './given-slots.js'
import { type LostClaim, lostClaims } from './lost-claims.js'
import type { SlotClaims } from './slot-claims.js'

export interface SlotReconcilerOptions {
  readonly cluster: Pick<Cluster, 'configurations' | 'instances' | 'claimSlot' | 'releaseSlot' | 'recordEvent'>
  readonly kubelet: Pick<Kubelet, 'listAllocated' | 'pods'>
  readonly node: NodeName
  readonly clock: Clock
  readonly log: Logger
  readonly claims: SlotClaims
  readonly given: GivenSlots
  /** How long no container may have a slot before it is taken back, where nobody watches Pods, in milliseconds. @default 20000 */
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
/** When a lost claim is looked at again where the kubelet or the cluster was away, in milliseconds. */
const RETRY_MS = 1000

/** The ids of a Configuration may look like slots, as those of the existing system do. */
const INSTANCE_NAME = /-[0-9a-f]{6}$/

/** A slot that this node holds, or would hold if its Instance were what it was. */
interface KnownSlot extends GivenSlot {
  /** As the Instance says it; undefined where it does not. */
  readonly held: { readonly key: ObjectKey; readonly usage: string } | undefined
}

/**
 * Makes what Instances say of the slots of this node follow what its containers have, both ways.
 *
 * A slot that no container has any more is taken back. The kubelet never says that a container has ended, but it lists the
 * ids that containers hold. One that is not listed may be about to start: while a Pod is there that asks for the resource and
 * has not been given anything, nothing of the resource is taken back. Where nobody watches Pods, a grace period has to do
 * instead.
 *
 * A slot that a container has is claimed again where its Instance does not say so any more: it was deleted and made anew,
 * with its Configuration or alone, or somebody has freed the slot. Until then another node could give it to a second container.
 */
export class SlotReconciler {
  readonly #options: Required<SlotReconcilerOptions>
  /** Since when a slot has not been listed. */
  readonly #unlistedSince = new Map<SlotName, number>()
  readonly #trouble: ClaimTrouble
  readonly #foreign: ForeignClaims
  readonly #present = new Set<ObjectKey>()
  #wake = new AbortController()
  /** When a Pod was last seen to go. */
  #goneAt = Number.NEGATIVE_INFINITY
  /** When it is worth to look again, should nothing happen before. */
  #lookAt = Number.POSITIVE_INFINITY
  #lastLook: { readonly asked: number; readonly allocated: Allocations } | undefined

  constructor(options: SlotReconcilerOptions) {
    this.#options = { graceMs: 20_000, intervalMs: 10_000, observer: nobodyObserves, beforeRelease: async () => {}, ...options }
    this.#trouble = new ClaimTrouble(this.#options)
    this.#foreign = new ForeignClaims(options.node)
  }

  async run(signal: AbortSignal): Promise<void> {
    const { cluster, kubelet, clock, intervalMs, log } = this.#options
    kubelet.pods?.onGone(() => {
      this.#goneAt = clock.now()
      this.#wake.abort()
    }, signal)
    cluster.instances.onChange((key) => this.#instanceChanged(key), signal)
    for (const instance of cluster.instances.list()) this.#instanceChanged(keyOf(instance))
    signal.addEventListener('abort', () => this.#wake.abort(), { once: true })
    while (!signal.aborted) {
      this.#wake = new AbortController()
      this.#lookAt = Number.POSITIVE_INFINITY
      await this.round(signal).catch((error: unknown) => {
        if (signal.aborted) return
        log.warn({ error: messageOf(error) }, 'cannot look for unused slots')
        if (cluster.instances.list().some((instance) => this.#hasLost(instance))) this.#lookAt = clock.now() + RETRY_MS
      })
      if (signal.aborted) return
      const waitMs = Math.min(intervalMs, Math.max(0, this.#lookAt - clock.now()))
      await clock.sleep(waitMs, this.#wake.signal).catch(() => undefined)
    }
  }

  /** One look. Rejects where the kubelet or the cluster cannot be asked; then nothing is known and nothing has changed. */
  async round(signal: AbortSignal): Promise<void> {
    const { cluster, kubelet, clock, log } = this.#options
    log.debug({}, 'reclaiming unused slots - start')
    const asked = clock.now()
    const allocated = await kubelet.listAllocated(signal)
    this.#lastLook = { asked, allocated }
    const held = cluster.instances.list().flatMap((instance) => this.#heldBy(instance))
    const unknown = this.#noteGiven(allocated, held)
    await this.#releaseUnused(allocated, held, asked)
    await this.#restoreLost(allocated, unknown, asked)
  }

  /**
   * What a new Instance has to say of its slots from its first moment on: those that containers of this node have, from the
   * time of an Instance of the same name, and those that other nodes had in it when it went. By the last look and the Pods that have gone since: whoever would ask the kubelet now
   * would leave it to other nodes to make the Instance, without these claims. One too many is taken back.
   */
  claimsIn(instance: Pick<ServedInstance, 'key' | 'name' | 'capacity'>): Record<SlotName, string> {
    const { given, node } = this.#options
    const look = this.#lastLook
    const known = given.of(instance.name, instance.capacity)
    const had = known.filter((one) => look === undefined || this.#isUsed(one, look.allocated, look.asked))
    return { ...Object.fromEntries(had.map((one) => [one.slot, usageOf(one, node)])), ...this.#foreign.of(instance) }
  }

  #instanceChanged(key: ObjectKey): void {
    const instance = this.#options.cluster.instances.get(key)
    if (instance === undefined) {
      this.#present.delete(key)
      return
    }
    const appeared = !this.#present.has(key)
    this.#present.add(key)
    this.#foreign.follow(key, instance)
    // Another node may have made it with claims of ours that nobody needs any more.
    const unused = appeared && this.#heldBy(instance).some((one) => !this.#options.given.has(one))
    if (unused || this.#hasLost(instance)) this.#wake.abort()
  }

  /** Whether an Instance has lost something that can be put right. */
  #hasLost(instance: Instance): boolean {
    const { given, node } = this.#options
    const known = given.of(instance.metadata.name, instance.spec.capacity)
    return lostClaims(known, [instance], node).some(({ obstacle }) => obstacle === undefined)
  }

  /** Remembers which slots containers have. @returns the ids of which nobody knows what they stand for */
  #noteGiven(allocated: Allocations, held: readonly KnownSlot[]): UnknownId[] {
    const { given, kubelet } = this.#options
    const heldAs = new Map<string, KnownSlot>()
    // Of two with one id, which nobody should have written, the one that was known before.
    for (const one of held) {
      const place = `${one.resourceName} ${one.id}`
      if (!heldAs.has(place) || given.has(one)) heldAs.set(place, one)
    }
    const unknown: UnknownId[] = []
    for (const [resourceName, containers] of allocated) {
      if (!resourceName.startsWith(`${GROUP}/`)) continue
      const name = resourceName.slice(GROUP.length + 1) as InstanceName
      const isInstance = INSTANCE_NAME.test(name)
      for (const { pod, ids, slots } of containers) {
        if (kubelet.pods?.hasEnded(pod) === true) continue
        for (const id of ids) {
          const own = isInstance && slotIndex(name, id) !== undefined ? (id as SlotName) : undefined
          const seen = slots?.get(id) ?? heldAs.get(`${resourceName} ${id}`)?.slot
          const slot = seen ?? given.slotOf(resourceName, id) ?? own
          if (slot !== undefined) given.note({ slot, resourceName, id })
          else if (this.#isAlive(pod, resourceName)) unknown.push({ resourceName, id })
        }
      }
    }
    return unknown
  }

  async #releaseUnused(allocated: Allocations, held: readonly KnownSlot[], asked: number): Promise<void> {
    const { kubelet, log, given } = this.#options
    const heldNow = new Set(held.map(placeOf))
    const lost = given.list().filter((one) => !heldNow.has(placeOf(one)))
    const known = [...held, ...lost.map((one): KnownSlot => ({ ...one, held: undefined }))]

    const stillKnown = new Set(known.map(({ slot }) => slot))
    for (const slot of this.#unlistedSince.keys()) if (!stillKnown.has(slot)) this.#unlistedSince.delete(slot)

    for (const one of known) {
      const pod = this.#podOf(one, allocated)
      if (pod !== undefined) {
        this.#unlistedSince.delete(one.slot)
        // The Pod has gone, and the kubelet is still busy with what is left of it.
        const leaving = kubelet.pods?.synced === true && !kubelet.pods.users(one.resourceName).has(pod)
        if (leaving && asked - this.#goneAt < LEAVING_MS) this.#lookAt = Math.min(this.#lookAt, asked + SOON_MS)
        continue
      }
      const freeAt = this.#freeAt(one, allocated, asked)
      if (freeAt > asked) {
        this.#lookAt = Math.min(this.#lookAt, freeAt)
        continue
      }
      await this.#release(one, asked).catch((error: unknown) => {
        log.warn({ slot: one.slot, error: messageOf(error) }, 'slot cannot be reclaimed')
      })
    }
  }

  /** From when on a slot that no container has is nobody's, as far as is known now. */
  #freeAt({ slot, resourceName }: GivenSlot, allocated: Allocations, asked: number): number {
    const { kubelet, graceMs, claims } = this.#options
    const claimed = claims.lastClaimed(slot) ?? 0
    if (kubelet.pods?.synced !== true) {
      // A claim, also of a slot that this node held already, gives its container the whole grace to start.
      const since = Math.max(this.#unlistedSince.get(slot) ?? asked, claimed)
      this.#unlistedSince.set(slot, since)
      return since + graceMs
    }
    const given = new Set(allocated.get(resourceName)?.map(({ pod }) => pod))
    for (const pod of kubelet.pods.users(resourceName)) if (!given.has(pod)) return Number.POSITIVE_INFINITY
    // One millisecond more: a claim of the moment in which the kubelet was asked may be younger than its answer.
    return claimed + kubelet.pods.lagMs + 1
  }

  /** The Pod whose container has the slot. */
  #podOf({ resourceName, id }: GivenSlot, allocated: Allocations): ObjectKey | undefined {
    const { pods } = this.#options.kubelet
    return (allocated.get(resourceName) ?? []).find(({ pod, ids }) => ids.has(id) && pods?.hasEnded(pod) !== true)?.pod
  }

  async #release(one: KnownSlot, asked: number): Promise<void> {
    const { cluster, claims, given, log, observer, beforeRelease } = this.#options
    const { slot, held } = one
    const outcome = await claims.release(slot, asked, async () => {
      // Before the Instance says so: it must not look like a claim that was lost.
      given.forget(one)
      if (held === undefined) return 'forgotten'
      await beforeRelease(held.key, slot)
      return cluster.releaseSlot(held.key, slot, held.usage)
    })
    if (outcome === undefined) return
    this.#unlistedSince.delete(slot)
    if (held === undefined) return
    if (outcome === 'released') observer.reclaimed()
    log.info({ slot, usage: held.usage, outcome }, 'slot reclaimed')
  }

  async #restoreLost(allocated: Allocations, unknown: readonly UnknownId[], asked: number): Promise<void> {
    const { cluster, kubelet, given, node } = this.#options
    const lost = lostClaims(given.list(), cluster.instances.list(), node)
    if (kubelet.pods?.synced === false) {
      // Who has ended is not known yet.
      if (lost.length > 0) this.#lookAt = Math.min(this.#lookAt, asked + SOON_MS)
      return
    }
    for (const one of unknown) this.#trouble.unknown(one)
    for (const one of lost) {
      if (!this.#isUsed(one.given, allocated, asked)) continue
      if (one.obstacle !== undefined) this.#trouble.obstacle(one, one.obstacle)
      else {
        await this.#restore(one).catch((error: unknown) => {
          this.#lookAt = Math.min(this.#lookAt, asked + RETRY_MS)
          this.#trouble.failed(one, error)
        })
      }
    }
    this.#trouble.endOfLook()
  }

  async #restore({ given: one, key, usage }: LostClaim): Promise<void> {
    const { cluster, claims, given, log, observer } = this.#options
    const claim = await claims.claim(one.slot, async () => (given.has(one) ? cluster.claimSlot(key, one.slot, usage) : undefined))
    if (claim?.outcome !== 'claimed') {
      // Somebody was faster, and what they wrote is seen next time.
      if (claim !== undefined) log.debug({ slot: one.slot, ...claim }, 'slot not claimed again')
      return
    }
    observer.restored('restored')
    log.warn({ slot: one.slot, usage }, 'a container has this slot, and its Instance did not say so: claimed again')
  }

  /**
   * Whether a container that has not ended has it, of a Pod that has not gone. One that is not listed counts until the slot is
   * nobody's: a kubelet that has just restarted lists nothing for a while.
   */
  #isUsed(one: GivenSlot, allocated: Allocations, asked: number): boolean {
    if (this.#podOf(one, allocated) === undefined) return this.#freeAt(one, allocated, asked) > asked
    const { resourceName, id } = one
    return (allocated.get(resourceName) ?? []).some(({ pod, ids }) => ids.has(id) && this.#isAlive(pod, resourceName))
  }

  #isAlive(pod: ObjectKey, resourceName: string): boolean {
    const { pods } = this.#options.kubelet
    // Before all Pods have been seen it is what the kubelet says.
    return pods?.synced !== true || (!pods.hasEnded(pod) && pods.users(resourceName).has(pod))
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
          ? { slot, held, resourceName: `${GROUP}/${instance.spec.configurationName}`, id: parsed.virtualId }
          : { slot, held, resourceName: `${GROUP}/${instance.metadata.name}`, id: slot }
      })
  }
}

function placeOf({ slot, resourceName, id }: GivenSlot): string {
  return `${slot} ${resourceName} ${id}`
}
