import { GROUP, holderOf, type Instance, keyOf, type NodeName, type ObjectKey, parseSlotUsage, type SlotName } from '@akrijs/kube'
import { type Clock, type Logger, messageOf } from '@akrijs/sdk'
import { type AgentObserver, nobodyObserves } from '../observer.js'
import type { Cluster } from '../ports/cluster.js'
import type { Allocations, Kubelet } from '../ports/kubelet.js'
import type { SlotClaims } from './slot-claims.js'

export interface SlotReclaimerOptions {
  readonly cluster: Pick<Cluster, 'instances' | 'releaseSlot'>
  readonly kubelet: Pick<Kubelet, 'listAllocated' | 'pods'>
  readonly node: NodeName
  readonly clock: Clock
  readonly log: Logger
  readonly claims: SlotClaims
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

/** A slot that this node holds. */
interface HeldSlot {
  readonly key: ObjectKey
  readonly slot: SlotName
  readonly usage: string
  /** Under which resource and which id a container has it. */
  readonly resourceName: string
  readonly id: string
}

/**
 * Takes back the slots of this node that no container has any more. The kubelet never says that a container has ended, but
 * it lists the ids that containers hold. One that is not listed may be about to start: while a Pod is there that asks for the
 * resource and has not been given anything, nothing of the resource is taken back. Where nobody watches Pods, a grace period
 * has to do instead.
 */
export class SlotReclaimer {
  readonly #options: Required<SlotReclaimerOptions>
  /** Since when a slot has not been listed. */
  readonly #unlistedSince = new Map<SlotName, number>()
  #wake = new AbortController()
  /** When a Pod was last seen to go. */
  #goneAt = Number.NEGATIVE_INFINITY
  /** When it is worth to look again, should nothing happen before. */
  #lookAt = Number.POSITIVE_INFINITY

  constructor(options: SlotReclaimerOptions) {
    this.#options = { graceMs: 20_000, intervalMs: 10_000, observer: nobodyObserves, beforeRelease: async () => {}, ...options }
  }

  async run(signal: AbortSignal): Promise<void> {
    const { kubelet, clock, intervalMs, log } = this.#options
    kubelet.pods?.onGone(() => {
      this.#goneAt = clock.now()
      this.#wake.abort()
    }, signal)
    signal.addEventListener('abort', () => this.#wake.abort(), { once: true })
    while (!signal.aborted) {
      this.#wake = new AbortController()
      this.#lookAt = Number.POSITIVE_INFINITY
      await this.round(signal).catch((error: unknown) => {
        if (!signal.aborted) log.warn({ error: messageOf(error) }, 'cannot look for unused slots')
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
    const held = cluster.instances.list().flatMap((instance) => this.#heldBy(instance))

    const stillHeld = new Set(held.map(({ slot }) => slot))
    for (const slot of this.#unlistedSince.keys()) if (!stillHeld.has(slot)) this.#unlistedSince.delete(slot)

    for (const one of held) {
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
  #freeAt({ slot, resourceName }: HeldSlot, allocated: Allocations, asked: number): number {
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
  #podOf({ resourceName, id }: HeldSlot, allocated: Allocations): ObjectKey | undefined {
    const { pods } = this.#options.kubelet
    return (allocated.get(resourceName) ?? []).find(({ pod, ids }) => ids.has(id) && pods?.hasEnded(pod) !== true)?.pod
  }

  async #release({ key, slot, usage }: HeldSlot, asked: number): Promise<void> {
    const { cluster, claims, log, observer, beforeRelease } = this.#options
    const outcome = await claims.release(slot, asked, async () => {
      await beforeRelease(key, slot)
      return cluster.releaseSlot(key, slot, usage)
    })
    if (outcome === undefined) return
    this.#unlistedSince.delete(slot)
    if (outcome === 'released') observer.reclaimed()
    log.info({ slot, usage, outcome }, 'slot reclaimed')
  }

  #heldBy(instance: Instance): HeldSlot[] {
    const key = keyOf(instance)
    return Object.entries(instance.spec.deviceUsage)
      .filter(([, usage]) => holderOf(usage) === this.#options.node)
      .map(([name, usage]) => {
        const slot = name as SlotName
        const parsed = parseSlotUsage(usage)
        return parsed.level === 'configuration'
          ? { key, slot, usage, resourceName: `${GROUP}/${instance.spec.configurationName}`, id: parsed.virtualId }
          : { key, slot, usage, resourceName: `${GROUP}/${instance.metadata.name}`, id: slot }
      })
  }
}
