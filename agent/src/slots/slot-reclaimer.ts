import { GROUP, type Instance, keyOf, type NodeName, type ObjectKey, type SlotName } from '@akrijs/kube'
import { type Clock, type Logger, messageOf } from '@akrijs/sdk'
import type { Cluster } from '../ports/cluster.js'
import type { Kubelet } from '../ports/kubelet.js'
import { parseSlotUsage } from './slot-usage.js'

export interface SlotReclaimerOptions {
  readonly cluster: Pick<Cluster, 'instances' | 'releaseSlot'>
  readonly kubelet: Pick<Kubelet, 'listAllocated' | 'onPodGone'>
  readonly node: NodeName
  readonly clock: Clock
  readonly log: Logger
  /** When this process last claimed the slot, by its clock. */
  lastClaimed(slot: SlotName): number | undefined
  /** How long no container may have a slot before it is taken back, in milliseconds. @default 20000 */
  readonly graceMs?: number
  /** How often this is looked at, in milliseconds. @default 10000 */
  readonly intervalMs?: number
}

/** How soon to look again while a claim has not been listed yet, in milliseconds. */
const UNSEEN_MS = 500

/** A slot that this node holds. */
interface HeldSlot {
  readonly key: ObjectKey
  readonly slot: SlotName
  readonly usage: string
}

/**
 * Takes back the slots of this node that no container has any more. The kubelet never says that a container has ended, but
 * it lists the ids that containers hold. A slot that was listed and no longer is, is free as soon as a Pod was seen to go;
 * any other waits for the grace period, because its container may be about to start.
 */
export class SlotReclaimer {
  readonly #options: Required<SlotReclaimerOptions>
  /** Since when a slot has not been listed. */
  readonly #unlistedSince = new Map<SlotName, number>()
  /** When a slot was last listed, for the usage that it had. */
  readonly #listed = new Map<SlotName, { readonly usage: string; readonly at: number }>()
  /** A Pod went since the last look. */
  #podGone = false
  /** A slot of this node is held that the kubelet has not listed yet. */
  #unseen = false
  #wake = new AbortController()

  constructor(options: SlotReclaimerOptions) {
    this.#options = { graceMs: 20_000, intervalMs: 10_000, ...options }
  }

  async run(signal: AbortSignal): Promise<void> {
    const { cluster, kubelet, clock, intervalMs, log } = this.#options
    kubelet.onPodGone(() => {
      this.#podGone = true
      this.#wake.abort()
    }, signal)
    // A claim: see it listed soon, so that the end of its container is noticed however short it lives.
    cluster.instances.onChange((key) => {
      const instance = cluster.instances.get(key)
      if (instance !== undefined && this.#heldBy(instance).some((one) => !this.#hadContainer(one))) {
        if (!this.#unseen) this.#wake.abort()
        this.#unseen = true
      }
    }, signal)
    signal.addEventListener('abort', () => this.#wake.abort(), { once: true })
    while (!signal.aborted) {
      this.#wake = new AbortController()
      const podGone = this.#podGone
      this.#podGone = false
      await this.round(signal, podGone).catch((error: unknown) => {
        this.#podGone ||= podGone
        // Not soon again: a kubelet that is away must not fill the log.
        this.#unseen = false
        if (!signal.aborted) log.warn({ error: messageOf(error) }, 'cannot look for unused slots')
      })
      if (signal.aborted) return
      await clock.sleep(this.#unseen ? UNSEEN_MS : intervalMs, this.#wake.signal).catch(() => undefined)
    }
  }

  /** One look. Rejects where the kubelet or the cluster cannot be asked; then nothing is known and nothing has changed. */
  async round(signal: AbortSignal, podGone = false): Promise<void> {
    const { cluster, kubelet, clock, graceMs, log } = this.#options
    log.debug({}, 'reclaiming unused slots - start')
    const asked = clock.now()
    const allocated = await kubelet.listAllocated(signal)
    const held = cluster.instances.list().flatMap((instance) => this.#heldBy(instance))

    const stillHeld = new Set(held.map(({ slot }) => slot))
    for (const slot of this.#unlistedSince.keys()) if (!stillHeld.has(slot)) this.#unlistedSince.delete(slot)
    for (const slot of this.#listed.keys()) if (!stillHeld.has(slot)) this.#listed.delete(slot)

    for (const one of held) {
      const { slot, usage } = one
      if (isListed(one, allocated)) {
        this.#unlistedSince.delete(slot)
        this.#listed.set(slot, { usage, at: asked })
        continue
      }
      // A claim, also of a slot that this node held already, gives its container the whole grace to start.
      const since = Math.max(this.#unlistedSince.get(slot) ?? asked, this.#options.lastClaimed(slot) ?? 0)
      this.#unlistedSince.set(slot, since)
      if (!(podGone && this.#hadContainer(one)) && asked - since < graceMs) continue
      await this.#release(one).catch((error: unknown) => {
        log.warn({ slot, error: messageOf(error) }, 'slot cannot be reclaimed')
      })
    }
    this.#unseen = held.some((one) => !this.#hadContainer(one))
  }

  /** Whether the container that the slot was last claimed for has been seen to have it. */
  #hadContainer({ slot, usage }: HeldSlot): boolean {
    const listed = this.#listed.get(slot)
    const claimed = this.#options.lastClaimed(slot)
    return listed?.usage === usage && (claimed === undefined || claimed < listed.at)
  }

  async #release({ key, slot, usage }: HeldSlot): Promise<void> {
    const outcome = await this.#options.cluster.releaseSlot(key, slot, usage)
    this.#unlistedSince.delete(slot)
    this.#listed.delete(slot)
    this.#options.log.info({ slot, usage, outcome }, 'slot reclaimed')
  }

  #heldBy(instance: Instance): HeldSlot[] {
    return Object.entries(instance.spec.deviceUsage).flatMap(([slot, usage]) => {
      const parsed = parseSlotUsage(usage)
      const ours = (parsed.level === 'instance' || parsed.level === 'configuration') && parsed.node === this.#options.node
      return ours ? [{ key: keyOf(instance), slot: slot as SlotName, usage }] : []
    })
  }
}

/** Whether a container has the slot: by its own name, or, for a claim of a Configuration, by the virtual id. */
function isListed({ slot, usage }: HeldSlot, allocated: ReadonlyMap<string, ReadonlySet<string>>): boolean {
  const parsed = parseSlotUsage(usage)
  const instance = slot.slice(0, slot.lastIndexOf('-'))
  if (parsed.level === 'instance') return allocated.get(`${GROUP}/${instance}`)?.has(slot) ?? false
  if (parsed.level !== 'configuration') return true
  const configuration = instance.slice(0, instance.lastIndexOf('-'))
  return allocated.get(`${GROUP}/${configuration}`)?.has(parsed.virtualId) ?? false
}
