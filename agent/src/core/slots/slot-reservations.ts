import { holderOf, type Instance, slotIndex } from '@akrijs/api'
import type { NodeName, ObjectKey } from '@akrijs/kube/objects'
import type { Clock } from '@akrijs/runtime'
import type { DeviceUsage } from '../../ports/cluster.js'

export interface SlotReservationsOptions {
  readonly node: NodeName
  readonly clock: Clock
  /** How long a slot that another node frees is left to that node, in milliseconds. */
  readonly reservationMs: number
  /** Called when a slot is left to nobody any more. */
  onExpired(key: ObjectKey): void
}

/** An Instance as it was last seen. */
interface Seen {
  readonly uid: string
  readonly deviceUsage: DeviceUsage
}

/** A slot that is left to another node. */
interface LeftSlot {
  /** What was written there. */
  readonly usage: string
  readonly since: number
  /** Whether it was so in an Instance that has been made anew since: the node has not come back to it yet. */
  readonly anew: boolean
}

/** Of how many Instances that have gone it is remembered who held what. */
const MAX_GONE = 1000

/**
 * Leaves a slot that another node frees to that node for a while: what replaces the Pod that had it finds it there.
 *
 * The scheduler hears of what a kubelet has some seconds later. Were the slot offered on all nodes at once and then taken by the
 * one that freed it, the scheduler would for these seconds see it on the others too and send them whatever is made next. Their
 * kubelets refuse that, a Deployment makes another Pod at once, and so on: hundreds of Pods that failed.
 *
 * So too in an Instance that is made anew, until that node joins it: its containers may run on, and it joins with the slots that
 * they have.
 */
export class SlotReservations {
  readonly #options: SlotReservationsOptions
  readonly #last = new Map<ObjectKey, Seen>()
  /** Instances that have gone while other nodes held slots, the first to go first. */
  readonly #gone = new Map<ObjectKey, Seen>()
  /** Of each Instance the slots that are left to another node. */
  readonly #left = new Map<ObjectKey, Map<string, LeftSlot>>()
  readonly #stop = new AbortController()

  constructor(options: SlotReservationsOptions) {
    this.#options = options
  }

  /** To be called for each change of an Instance, with what it is now. */
  instanceChanged(key: ObjectKey, instance: Instance | undefined): void {
    const { node, clock, reservationMs: leftForMs } = this.#options
    const before = this.#last.get(key) ?? this.#gone.get(key)
    this.#gone.delete(key)
    if (instance === undefined) {
      this.#last.delete(key)
      this.#left.delete(key)
      if (before !== undefined) this.#remember(key, before)
      return
    }
    const { uid } = instance.metadata
    const { deviceUsage, nodes } = instance.spec
    this.#last.set(key, { uid, deviceUsage })
    if (before === undefined || leftForMs === 0) return
    const anew = before.uid !== uid
    for (const [slot, usage] of Object.entries(before.deviceUsage)) {
      const holder = holderOf(usage)
      if (
        holder === undefined ||
        holder === node ||
        nodes.includes(holder) === anew ||
        isHeld(deviceUsage, slot)
      )
        continue
      const since = clock.monotonicMs()
      const left = this.#left.get(key) ?? new Map<string, LeftSlot>()
      this.#left.set(key, left.set(slot, { usage, since, anew }))
      void clock.sleep(leftForMs, this.#stop.signal).then(
        () => this.#end(key, slot, since),
        () => undefined,
      )
    }
  }

  /** The usage of an Instance as this node goes by it: slots that are left to other nodes as if these still held them. */
  usage(
    key: ObjectKey,
    { metadata, spec: { deviceUsage, nodes, capacity } }: Instance,
  ): DeviceUsage {
    const left = this.#left.get(key)
    if (left === undefined) return deviceUsage
    const stillLeft = [...left].filter(([slot, { usage, anew }]) => {
      const holder = holderOf(usage)
      const isOne = (slotIndex(metadata.name, slot) ?? capacity) < capacity
      return (
        isOne &&
        !isHeld(deviceUsage, slot) &&
        holder !== undefined &&
        nodes.includes(holder) !== anew
      )
    })
    return {
      ...deviceUsage,
      ...Object.fromEntries(stillLeft.map(([slot, { usage }]) => [slot, usage])),
    }
  }

  close(): void {
    this.#stop.abort()
  }

  #remember(key: ObjectKey, seen: Seen): void {
    const { node } = this.#options
    if (Object.values(seen.deviceUsage).every((usage) => (holderOf(usage) ?? node) === node)) return
    this.#gone.set(key, seen)
    const [oldest] = this.#gone.keys()
    if (this.#gone.size > MAX_GONE && oldest !== undefined) this.#gone.delete(oldest)
  }

  #end(key: ObjectKey, slot: string, since: number): void {
    const left = this.#left.get(key)
    // It may have been taken and freed once more since.
    if (left?.get(slot)?.since !== since) return
    left.delete(slot)
    if (left.size === 0) this.#left.delete(key)
    this.#options.onExpired(key)
  }
}

function isHeld(deviceUsage: DeviceUsage, slot: string): boolean {
  return Object.hasOwn(deviceUsage, slot) && deviceUsage[slot] !== ''
}
