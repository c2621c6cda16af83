import { holderOf, type Instance, slotIndex } from '@akrijs/api'
import type { NodeName, ObjectKey } from '@akrijs/kube/objects'
import { type Clock, runAfter } from '@akrijs/runtime'
import type { DeviceUsage } from '../cluster/cluster.js'

interface SlotReservationsOptions {
  readonly node: NodeName
  readonly clock: Clock
  /** How long a freed slot is reserved for its last node, in milliseconds. */
  readonly reservationMs: number
  /** Called when a reservation of the Instance has expired. */
  onExpired(key: ObjectKey): void
}

/** The last state of an Instance. */
interface LastState {
  readonly uid: string
  readonly deviceUsage: DeviceUsage
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
}

/** The end of a reservation. */
interface Expiry {
  readonly key: ObjectKey
  readonly slot: string
  readonly reservation: Reservation
  /** By `monotonicMs`. */
  readonly at: number
}

/** How many deleted Instances are remembered. */
const MAX_DELETED = 1000

/**
 * Reserves a slot that another node frees for that node: the Pod that replaces the last one finds
 * the slot there.
 *
 * The scheduler hears of a kubelet's devices seconds late. Without reservations, all nodes would
 * offer a freed slot at once. When its last node takes the slot again, the scheduler would still
 * send new Pods to the other nodes. Their kubelets refuse these Pods, a Deployment replaces each of
 * them at once, and hundreds of Pods fail.
 *
 * The slots of a recreated Instance, or of a node that left an Instance, are reserved until the
 * last node joins: its containers may still run, and the node joins with their claims.
 */
export class SlotReservations {
  readonly #options: SlotReservationsOptions
  readonly #last = new Map<ObjectKey, LastState>()
  /** Instances that were deleted while other nodes held slots; the oldest deletion first. */
  readonly #deleted = new Map<ObjectKey, LastState>()
  readonly #reservations = new Map<ObjectKey, Map<string, Reservation>>()
  /** In the order of their times: all reservations last equally long. */
  readonly #expiries = new Set<Expiry>()
  #isWaiting = false
  readonly #stop = new AbortController()

  constructor(options: SlotReservationsOptions) {
    this.#options = options
  }

  /** To be called after each change of an Instance. */
  instanceChanged(key: ObjectKey, instance: Instance | undefined): void {
    const { node, clock, reservationMs } = this.#options
    const before = this.#last.get(key) ?? this.#deleted.get(key)
    this.#deleted.delete(key)
    if (instance === undefined) {
      this.#last.delete(key)
      if (before !== undefined) this.#rememberDeleted(key, before)
      this.#reservations.delete(key)
      return
    }
    const { uid } = instance.metadata
    this.#last.set(key, { uid, deviceUsage: instance.spec.deviceUsage })
    if (before === undefined || reservationMs === 0) return
    const recreated = before.uid !== uid
    for (const [slot, usage] of Object.entries(before.deviceUsage)) {
      if (instance.spec.deviceUsage[slot] === usage) continue
      const holder = holderOf(usage)
      if (holder === undefined || holder === node) continue
      const reservation = { usage, absent: recreated || !instance.spec.nodes.includes(holder) }
      if (!isReserved(slot, reservation, instance)) continue
      const reservations = this.#reservations.get(key) ?? new Map<string, Reservation>()
      this.#reservations.set(key, reservations.set(slot, reservation))
      this.#expiries.add({ key, slot, reservation, at: clock.monotonicMs() + reservationMs })
    }
    if (!this.#isWaiting) this.#expireLater()
  }

  /** The claims of an Instance, and its reservations as if they were claims. */
  usage(key: ObjectKey, instance: Instance): DeviceUsage {
    const { metadata, spec } = instance
    const reservations = this.#reservations.get(key)
    if (reservations === undefined) return spec.deviceUsage
    const usage = { ...spec.deviceUsage }
    for (const [slot, reservation] of reservations) {
      const index = slotIndex(metadata.name, slot) ?? spec.capacity
      if (index < spec.capacity && isReserved(slot, reservation, instance))
        usage[slot] = reservation.usage
    }
    return usage
  }

  close(): void {
    this.#stop.abort()
  }

  #rememberDeleted(key: ObjectKey, { uid, deviceUsage }: LastState): void {
    const claims = new Map(Object.entries(deviceUsage))
    // Of nodes that left before the last one.
    for (const [slot, { usage, absent }] of this.#reservations.get(key) ?? [])
      if (absent && (claims.get(slot) ?? '') === '') claims.set(slot, usage)
    const holders = [...claims.values()].map(holderOf)
    if (holders.every((holder) => holder === undefined || holder === this.#options.node)) return
    this.#deleted.set(key, { uid, deviceUsage: Object.fromEntries(claims) })
    const [oldest] = this.#deleted.keys()
    if (this.#deleted.size > MAX_DELETED && oldest !== undefined) this.#deleted.delete(oldest)
  }

  /** One timer for all: each timer listens to the signal, and thousands of slots can be freed. */
  #expireLater(): void {
    const [first] = this.#expiries
    this.#isWaiting = first !== undefined
    if (first === undefined) return
    const { clock } = this.#options
    const wait = Math.max(0, first.at - clock.monotonicMs())
    runAfter(clock, wait, this.#stop.signal, () => {
      const now = clock.monotonicMs()
      for (const expiry of this.#expiries) {
        if (expiry.at > now) break
        this.#expiries.delete(expiry)
        this.#expire(expiry)
      }
      this.#expireLater()
    })
  }

  #expire({ key, slot, reservation }: Expiry): void {
    const reservations = this.#reservations.get(key)
    // A later reservation may have replaced this one.
    if (reservations?.get(slot) !== reservation) return
    reservations.delete(slot)
    if (reservations.size === 0) this.#reservations.delete(key)
    this.#options.onExpired(key)
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
