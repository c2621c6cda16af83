import { holderOf, type Instance, slotIndex } from '@akrijs/api'
import type { NodeName, ObjectKey } from '@akrijs/kube/objects'
import { type Clock, runAfter } from '@akrijs/runtime'
import type { DeviceUsage } from '../cluster/cluster.js'

export interface ReservationOptions {
  readonly node: NodeName
  readonly clock: Clock
  /**
   * How long a slot that another node frees is reserved for that node, in milliseconds.
   * @default 15000
   */
  readonly slotHandoverMs?: number | undefined
}

interface SlotReservationsOptions extends ReservationOptions {
  /** Called when reservations of the Instance have expired. */
  onExpired(key: ObjectKey): void
  readonly signal: AbortSignal
}

/** A freed slot that is kept for its last node. */
interface Reservation {
  /** The last claim of the slot. */
  readonly usage: string
  /**
   * Whether the last node has yet to join: it left the Instance, or the Instance was recreated
   * since the claim.
   */
  readonly absent: boolean
  /** The end of the reservation, by `monotonicMs`. */
  readonly until: number
}

/**
 * Longer than the scheduler puts a Pod off that found no node: 10 s at most, and a second until it
 * looks (`podMaxBackoffSeconds` in the KubeSchedulerConfiguration API).
 */
const SLOT_HANDOVER_MS = 15_000
/** How many deleted Instances are remembered. */
const MAX_DELETED = 1000

/**
 * Reserves a slot that another node frees for that node. The scheduler hears of a kubelet's devices
 * seconds late: if all nodes offered a freed slot at once, it would send new Pods to nodes without
 * the slot. Their kubelets refuse these Pods, and a Deployment replaces each of them, by hundreds.
 *
 * The slots of a recreated Instance, or of a node that left an Instance, are reserved until the
 * last node joins: its containers may still run, and the node joins with their claims.
 */
export class SlotReservations {
  readonly #options: SlotReservationsOptions
  /** The Instances as they were at their last change. */
  readonly #last = new Map<ObjectKey, Instance>()
  /** Instances that were deleted while other nodes held slots; the oldest deletion first. */
  readonly #deleted = new Map<ObjectKey, Instance>()
  /** By Instance and slot. */
  readonly #reserved = new Map<ObjectKey, Map<string, Reservation>>()
  /** Whether the timer runs: one for all, because thousands of slots can be freed. */
  #isTimed = false

  constructor(options: SlotReservationsOptions) {
    this.#options = options
  }

  /** To be called after each change of an Instance. */
  instanceChanged(key: ObjectKey, instance: Instance | undefined): void {
    const { node, clock, slotHandoverMs = SLOT_HANDOVER_MS } = this.#options
    const last = this.#last.get(key)
    const before = last ?? this.#deleted.get(key)
    this.#deleted.delete(key)
    if (instance === undefined) {
      this.#last.delete(key)
      if (last !== undefined) this.#rememberDeleted(key, last)
      return
    }
    this.#last.set(key, instance)
    if (before === undefined || slotHandoverMs === 0) return
    const { metadata, spec } = instance
    const until = clock.monotonicMs() + slotHandoverMs
    const reserved = this.#reserved.get(key) ?? new Map<string, Reservation>()
    for (const [slot, usage] of Object.entries(before.spec.deviceUsage)) {
      const holder = spec.deviceUsage[slot] === usage ? undefined : holderOf(usage)
      if (holder === undefined || holder === node) continue
      const absent = before.metadata.uid !== metadata.uid || !spec.nodes.includes(holder)
      const reservation = { usage, absent, until }
      if (isReserved(slot, reservation, instance)) reserved.set(slot, reservation)
    }
    if (reserved.size === 0) return
    this.#reserved.set(key, reserved)
    if (!this.#isTimed) this.#expireLater(slotHandoverMs)
  }

  /** The claims of an Instance, and its reservations as if they were claims. */
  usage(key: ObjectKey, instance: Instance): DeviceUsage {
    const { metadata, spec } = instance
    const usage = { ...spec.deviceUsage }
    // Not slot by slot: another program may write any capacity.
    for (const [slot, reservation] of this.#reserved.get(key) ?? []) {
      const index = slotIndex(metadata.name, slot) ?? spec.capacity
      if (index < spec.capacity && isReserved(slot, reservation, instance))
        usage[slot] = reservation.usage
    }
    return usage
  }

  #rememberDeleted(key: ObjectKey, last: Instance): void {
    const deviceUsage = { ...last.spec.deviceUsage }
    // Of nodes that left before the last one.
    for (const [slot, { usage, absent }] of this.#reserved.get(key) ?? [])
      if (absent) deviceUsage[slot] ||= usage
    this.#reserved.delete(key)
    const holders = Object.values(deviceUsage).map(holderOf)
    if (holders.every((holder) => holder === undefined || holder === this.#options.node)) return
    this.#deleted.set(key, { ...last, spec: { ...last.spec, deviceUsage } })
    const [oldest] = this.#deleted.keys()
    if (this.#deleted.size > MAX_DELETED && oldest !== undefined) this.#deleted.delete(oldest)
  }

  #expireLater(waitMs: number): void {
    const { clock, signal, onExpired } = this.#options
    this.#isTimed = true
    runAfter(clock, waitMs, signal, () => {
      const now = clock.monotonicMs()
      const over = new Set<ObjectKey>()
      let next = Infinity
      for (const [key, reserved] of this.#reserved) {
        for (const [slot, { until }] of reserved)
          if (until > now) next = Math.min(next, until)
          else if (reserved.delete(slot)) over.add(key)
        if (reserved.size === 0) this.#reserved.delete(key)
      }
      this.#isTimed = next < Infinity
      if (this.#isTimed) this.#expireLater(next - now)
      for (const key of over) onExpired(key)
    })
  }
}

/**
 * Whether the slot is free and its last node may take it: that node is in the Instance, or yet has
 * to join it.
 */
function isReserved(
  slot: string,
  { usage, absent }: Reservation,
  { spec: { deviceUsage, nodes } }: Instance,
): boolean {
  const holder = holderOf(usage)
  const isFree = !Object.hasOwn(deviceUsage, slot) || deviceUsage[slot] === ''
  return isFree && holder !== undefined && nodes.includes(holder) !== absent
}
