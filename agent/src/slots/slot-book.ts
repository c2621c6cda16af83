import {
  type ConfigurationName,
  GROUP,
  holderOf,
  type Instance,
  type InstanceName,
  parseSlotUsage,
  possibleOwner,
  type SlotName,
  type SlotUsage,
  slotsOf,
} from '@akrijs/api'
import { keyOf, keyParts, type NodeName, type ObjectKey } from '@akrijs/kube/objects'
import { type Clock, isTurnOver, Listeners, nextTurn } from '@akrijs/runtime'
import type { Cluster, DeviceUsage } from '../cluster/cluster.js'
import type { ServedInstance } from '../instances/served-instance.js'
import type { NodePods } from '../kubelet/kubelet.js'
import { AllocationLedger, instanceOf } from './allocation-ledger.js'
import { SlotReservations } from './slot-reservations.js'

/**
 * The slots of an Instance, as this node may offer them. What is offered, preferred and allocated
 * at both levels is computed from this, so Allocate refuses no offered slot.
 */
export interface InstanceSlots {
  readonly served: ServedInstance
  /** Whether the cluster has the Instance: `leaving` while it is being deleted. */
  readonly state: 'there' | 'leaving' | 'absent'
  /** Whether a slot can be allocated: the device is healthy, and the Instance is there. */
  readonly usable: boolean
  /** The slots of the capacity, with what containers of this node have, recorded or not. */
  readonly slots: ReadonlyMap<SlotName, SlotUsage>
  /** The claimed slots beyond a lowered capacity: as many free slots wait. */
  readonly beyond: ReadonlyMap<SlotName, SlotUsage>
  /** The slots that can be claimed now, in the order in which this node claims them. */
  readonly free: readonly SlotName[]
  /** The slots that this node has by the resource of the Instance, in the same order. */
  readonly own: readonly SlotName[]
  /** The slots that this node has by the resource of the Configuration, by their ids. */
  readonly byId: ReadonlyMap<string, SlotName>
}

/** A device that is gone while containers of this node use it. */
export interface LostDevice {
  /** Undefined if the device went while no agent ran, and its Instance with it. */
  readonly id: string | undefined
  readonly instance: InstanceName
  readonly configuration: ConfigurationName
}

interface SlotBookOptions {
  readonly cluster: { readonly instances: Cluster['instances'] }
  readonly node: NodeName
  /** The Pods of this node; undefined if Pods are not watched. */
  readonly kubelet: { readonly pods: NodePods | undefined }
  readonly clock: Clock
  /**
   * How long a slot that another node frees is reserved for that node, in milliseconds.
   * @default 15000
   */
  readonly slotHandoverMs?: number | undefined
}

interface Entry {
  readonly served: ServedInstance
  /** Made for a question after a change of a fact: a request can change 500 slots. */
  slots: InstanceSlots | undefined
}

/**
 * Longer than the scheduler puts a Pod off that found no node: 10 s at most, and a second until it
 * looks (`podMaxBackoffSeconds` in the KubeSchedulerConfiguration API).
 */
const SLOT_HANDOVER_MS = 15_000
/** How often all slots are made again in case that a change was missed, in milliseconds. */
const REFRESH_MS = 60_000

/**
 * All that this node knows of the slots of its devices: the claims that Instances record, the
 * slots that its containers have, and those that are reserved for other nodes. It does no I/O:
 * facts come in, and plugins ask what they may offer, at both levels.
 */
export class SlotBook {
  readonly node: NodeName
  /** The slots that the containers of this node have. */
  readonly allocations: AllocationLedger
  readonly #options: SlotBookOptions
  readonly #reservations: SlotReservations
  readonly #served = new Map<ConfigurationName, Map<InstanceName, Entry>>()
  readonly #lost = new Map<InstanceName, LostDevice>()
  readonly #changes = new Listeners<[resource: string]>()
  readonly #losses = new Listeners<[device: LostDevice, isOver: boolean]>()
  readonly #stop = new AbortController()

  constructor(options: SlotBookOptions) {
    const { cluster, node, kubelet, clock, slotHandoverMs = SLOT_HANDOVER_MS } = options
    const { instances } = cluster
    const { signal } = this.#stop
    this.#options = options
    this.node = node
    this.allocations = new AllocationLedger({ node, pods: kubelet.pods })
    const changed = (key: ObjectKey) => {
      const served = this.served(keyParts(key).name as InstanceName)
      if (served?.key === key) this.#changed(served)
    }
    this.#reservations = new SlotReservations({
      node,
      clock,
      reservationMs: slotHandoverMs,
      onExpired: changed,
      signal,
    })
    // A claim from before the start of the agent is reserved for its node too when it is released.
    for (const instance of instances.list())
      this.#reservations.instanceChanged(keyOf(instance), instance)
    instances.onChange((key) => {
      this.#reservations.instanceChanged(key, instances.get(key))
      changed(key)
    }, signal)
    this.allocations.onChange((slot) => this.#allocationChanged(instanceOf(slot)), signal)
    void this.#refreshOften()
  }

  /** Takes over a device that this node serves, or a new state of it. */
  serve(served: ServedInstance): void {
    const { name, configuration } = served
    this.#lost.delete(name)
    const entries = this.#served.get(configuration) ?? new Map<InstanceName, Entry>()
    this.#served.set(configuration, entries.set(name, { served, slots: undefined }))
    this.#changed(served)
  }

  /** @param isLost whether the device is gone */
  withdraw({ name, configuration, device }: ServedInstance, isLost: boolean): void {
    const entries = this.#served.get(configuration)
    entries?.delete(name)
    if (entries?.size === 0) this.#served.delete(configuration)
    if (isLost) this.lose({ id: device.id, instance: name, configuration })
    this.#tell(configuration)
  }

  /** The device of an Instance is gone that this node does not serve. */
  lose(device: LostDevice): void {
    const { instance, configuration } = device
    if (this.allocations.inUse(instance).length === 0 || this.served(instance) !== undefined) return
    this.#lost.set(instance, device)
    this.#tell(configuration)
    this.#losses.tell(device, false)
  }

  /** Undefined if this node does not serve the Instance. */
  served(name: InstanceName): ServedInstance | undefined {
    return this.#entry(name)?.served
  }

  /** Undefined if this node does not serve the Instance. */
  of(name: InstanceName): InstanceSlots | undefined {
    const entry = this.#entry(name)
    return entry && this.#slotsOf(entry)
  }

  /** Of all Instances of a Configuration that this node serves. */
  all(configuration: ConfigurationName): readonly InstanceSlots[] {
    const entries = this.#served.get(configuration)?.values() ?? []
    return Array.from(entries, (entry) => this.#slotsOf(entry))
  }

  /** The Instances of a Configuration whose devices are gone while containers use them. */
  lost(configuration: ConfigurationName): readonly InstanceName[] {
    return [...this.#lost.keys()].filter((name) => possibleOwner(name) === configuration)
  }

  isLost(name: InstanceName): boolean {
    return this.#lost.has(name)
  }

  /** Calls back after what the ids of a resource stand for may have changed. */
  onChange(listener: (resource: string) => void, signal: AbortSignal): void {
    this.#changes.add(listener, signal)
  }

  /** Calls back after a device is gone that Pods use, and when no Pod has it any more. */
  onLoss(listener: (device: LostDevice, isOver: boolean) => void, signal: AbortSignal): void {
    this.#losses.add(listener, signal)
  }

  close(): void {
    this.#stop.abort()
  }

  /** In turns with other work: for 10,000 Instances it takes 0.3 s to 0.5 s, and Allocate waits. */
  async #refreshOften(): Promise<void> {
    const { signal } = this.#stop
    while (!signal.aborted) {
      await this.#options.clock.sleep(REFRESH_MS, signal).catch(() => undefined)
      for (const entries of this.#served.values())
        for (const { served } of entries.values()) {
          if (signal.aborted) return
          this.#changed(served)
          this.of(served.name)
          if (isTurnOver()) await nextTurn()
        }
    }
  }

  #allocationChanged(name: InstanceName): void {
    const served = this.served(name)
    if (served !== undefined) this.#changed(served)
    const lost = this.#lost.get(name)
    if (lost === undefined) return
    const isOver = this.allocations.inUse(name).length === 0
    if (isOver) this.#lost.delete(name)
    this.#tell(lost.configuration)
    if (isOver) this.#losses.tell(lost, isOver)
  }

  #changed({ name, configuration }: ServedInstance): void {
    const entry = this.#entry(name)
    if (entry !== undefined) entry.slots = undefined
    this.#tell(name)
    this.#tell(configuration)
  }

  #tell(name: InstanceName | ConfigurationName): void {
    this.#changes.tell(`${GROUP}/${name}`)
  }

  #entry(name: InstanceName): Entry | undefined {
    const configuration = possibleOwner(name)
    return configuration && this.#served.get(configuration)?.get(name)
  }

  #slotsOf(entry: Entry): InstanceSlots {
    const { served } = entry
    if (entry.slots === undefined) {
      const instance = this.#options.cluster.instances.get(served.key)
      const usage = instance && this.#reservations.usage(served.key, instance)
      const inUse = this.allocations.claimsIn(served.name)
      entry.slots = instanceSlots(this.node, served, instance, usage, inUse)
    }
    return entry.slots
  }
}

/**
 * @param instance as the cluster has it; undefined before it exists
 * @param usage the claims of the Instance, with reservations
 * @param inUse the claims of containers of this node, as the Instance should record them
 */
export function instanceSlots(
  node: NodeName,
  served: ServedInstance,
  instance: Instance | undefined,
  usage: DeviceUsage = instance?.spec.deviceUsage ?? {},
  inUse: Readonly<Record<SlotName, string>> = {},
): InstanceSlots {
  // Until the Instance follows its Configuration, the smaller of the two capacities counts.
  const capacity = Math.min(served.capacity, instance?.spec.capacity ?? served.capacity)
  const isLeaving = instance?.metadata.deletionTimestamp !== undefined
  const state = instance === undefined ? 'absent' : isLeaving ? 'leaving' : 'there'
  // The kubelet keeps the ids of containers while the Instance is away, and no other id.
  const claims: Record<string, string> = state === 'there' ? { ...usage } : {}
  // Another claim that this node has on the slot of a container waits for its release.
  for (const [slot, claim] of Object.entries(inUse))
    if (!claims[slot] || holderOf(claims[slot]) === node) claims[slot] = claim
  const slots = slotsOf(served.name, capacity, claims)
  const beyond = new Map<SlotName, SlotUsage>()
  for (const [name, claim] of Object.entries(claims)) {
    const slot = name as SlotName
    if (claim !== '' && !slots.has(slot)) beyond.set(slot, parseSlotUsage(claim))
  }
  const usable = served.healthy && state === 'there'
  const unclaimed = [...slots].flatMap(([slot, { level }]) => (level === 'free' ? slot : []))
  // After the capacity was lowered, as many free slots wait as claims are beyond the capacity.
  const count = usable ? Math.max(0, unclaimed.length - beyond.size) : 0
  const claimable = new Set(unclaimed.slice(0, count))
  const free: SlotName[] = []
  const own: SlotName[] = []
  for (const [slot, usage] of slotsInClaimOrder(slots, node, instance?.spec.nodes ?? [])) {
    if (claimable.has(slot)) free.push(slot)
    if (usage.level === 'instance' && usage.node === node) own.push(slot)
  }
  const byId = new Map<string, SlotName>()
  // Also those beyond the capacity: the kubelet knows their ids until their Pods end. Two slots
  // with one id are an error of another writer: the first counts.
  for (const [slot, claim] of [...slots, ...beyond])
    if (claim.level === 'configuration' && claim.node === node && !byId.has(claim.virtualId))
      byId.set(claim.virtualId, slot)
  return { served, state, usable, slots, beyond, free, own, byId }
}

/**
 * The slots of an Instance in the order in which the node claims them, at both levels. Nodes begin
 * at different slots, and each pair of nodes counts towards each other. So nodes that choose at the
 * same moment rarely choose the same slot.
 * @param nodes all nodes of the Instance, in the same order on each node
 */
function slotsInClaimOrder(
  slots: ReadonlyMap<SlotName, SlotUsage>,
  node: NodeName,
  nodes: readonly NodeName[],
): [SlotName, SlotUsage][] {
  const all = [...slots]
  const beginningAt = (index: number) => [...all.slice(index), ...all.slice(0, index)]
  // A node that has not joined yet will be the last one.
  const members = nodes.includes(node) ? nodes : [...nodes, node]
  const position = members.indexOf(node)
  const share = (end: number) => (end * slots.size) / members.length
  return position % 2 === 0
    ? beginningAt(Math.floor(share(position)))
    : beginningAt(Math.ceil(share(position + 1))).toReversed()
}
