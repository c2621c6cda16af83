import { holderOf, type Instance, slotIndex } from '@akrijs/api'
import type { NodeName, ObjectKey } from '@akrijs/kube/objects'
import { type Clock, runAfter } from '@akrijs/runtime'
import type { DeviceUsage } from '../cluster/cluster.js'

interface SlotReservationsOptions {
  readonly node: NodeName
  readonly clock: Clock
  /** How long a freed slot is reserved for its last node, in milliseconds. */
  readonly reservationMs: number
  /** Called when reservations of the Instance have expired. */
  onExpired(key: ObjectKey): void
  readonly signal: AbortSignal
}

/** Of an Instance. */
interface LastState {
  readonly uid: string
  readonly deviceUsage: DeviceUsage
  /** The reservations, by slot. */
  readonly reserved: Map<string, Reservation>
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
  readonly #last = new Map<ObjectKey, LastState>()
  /** Instances that were deleted while other nodes held slots; the oldest deletion first. */
  readonly #deleted = new Map<ObjectKey, Omit<LastState, 'reserved'>>()
  /** In the order of their times: all reservations last equally long. */
  readonly #expiries: { readonly key: ObjectKey; readonly at: number }[] = []

  constructor(options: SlotReservationsOptions) {
    this.#options = options
  }

  /** To be called after each change of an Instance. */
  instanceChanged(key: ObjectKey, instance: Instance | undefined): void {
    const { node, clock, reservationMs } = this.#options
    const last = this.#last.get(key)
    const before = last ?? this.#deleted.get(key)
    this.#deleted.delete(key)
    if (instance === undefined) {
      this.#last.delete(key)
      if (last !== undefined) this.#rememberDeleted(key, last)
      return
    }
    const { metadata, spec } = instance
    const reserved = last?.reserved ?? new Map<string, Reservation>()
    this.#last.set(key, { uid: metadata.uid, deviceUsage: spec.deviceUsage, reserved })
    if (before === undefined || reservationMs === 0) return
    const recreated = before.uid !== metadata.uid
    const until = clock.monotonicMs() + reservationMs
    let isNew = false
    for (const [slot, usage] of Object.entries(before.deviceUsage)) {
      const holder = spec.deviceUsage[slot] === usage ? undefined : holderOf(usage)
      if (holder === undefined || holder === node) continue
      const reservation = { usage, absent: recreated || !spec.nodes.includes(holder), until }
      if (!isReserved(slot, reservation, instance)) continue
      reserved.set(slot, reservation)
      isNew = true
    }
    if (isNew && this.#expiries.push({ key, at: until }) === 1) this.#expireLater(reservationMs)
  }

  /** The claims of an Instance, and its reservations as if they were claims. */
  usage(key: ObjectKey, instance: Instance): DeviceUsage {
    const { metadata, spec } = instance
    const reserved = this.#last.get(key)?.reserved
    if (reserved === undefined || reserved.size === 0) return spec.deviceUsage
    const usage = { ...spec.deviceUsage }
    for (const [slot, reservation] of reserved) {
      const index = slotIndex(metadata.name, slot) ?? spec.capacity
      if (index < spec.capacity && isReserved(slot, reservation, instance))
        usage[slot] = reservation.usage
    }
    return usage
  }

  #rememberDeleted(key: ObjectKey, { uid, deviceUsage, reserved }: LastState): void {
    const claims = { ...deviceUsage }
    // Of nodes that left before the last one.
    for (const [slot, { usage, absent }] of reserved) if (absent) claims[slot] ||= usage
    const holders = Object.values(claims).map(holderOf)
    if (holders.every((holder) => holder === undefined || holder === this.#options.node)) return
    this.#deleted.set(key, { uid, deviceUsage: claims })
    const [oldest] = this.#deleted.keys()
    if (this.#deleted.size > MAX_DELETED && oldest !== undefined) this.#deleted.delete(oldest)
  }

  /** One timer for all: each timer listens to the signal, and thousands of slots can be freed. */
  #expireLater(waitMs: number): void {
    const { clock, signal, onExpired } = this.#options
    runAfter(clock, waitMs, signal, () => {
      const now = clock.monotonicMs()
      const over = this.#expiries.filter(({ at }) => at <= now)
      this.#expiries.splice(0, over.length)
      for (const { key } of over) {
        const reserved = this.#last.get(key)?.reserved
        const ended = [...(reserved ?? [])].filter(([, { until }]) => until <= now)
        for (const [slot] of ended) reserved?.delete(slot)
        if (ended.length > 0) onExpired(key)
      }
      const [next] = this.#expiries
      if (next !== undefined) this.#expireLater(next.at - now)
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
