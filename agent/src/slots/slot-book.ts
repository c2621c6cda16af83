import {
  type Compatibility,
  type ConfigurationName,
  GROUP,
  holderOf,
  type Instance,
  type InstanceName,
  parseSlotUsage,
  type SlotName,
  type SlotUsage,
  slotsOf,
} from '@akrijs/api'
import { keyOf, keyParts, type NodeName, type ObjectKey } from '@akrijs/kube/objects'
import { inTurns, Listeners } from '@akrijs/runtime'
import type { Cluster, DeviceUsage } from '../cluster/cluster.js'
import { AllocationRefusedError } from '../errors.js'
import type { ServedInstance } from '../instances/served-instance.js'
import type { NodePods } from '../kubelet/kubelet.js'
import { AllocationLedger, instanceOf } from './allocation-ledger.js'
import { advertisedIds, chooseSlots, preferredIds } from './configuration-resource.js'
import { chosenSlots, preferredSlots } from './instance-resource.js'
import type {
  AdvertisedDevice,
  ChosenSlot,
  InstanceSlots,
  PreferenceRequest,
  Resource,
} from './resource.js'
import { type ReservationOptions, SlotReservations } from './slot-reservations.js'

/** A device that is gone while containers of this node use it. */
export interface LostDevice {
  /** Undefined if the device went while no agent ran, and its Instance with it. */
  readonly id: string | undefined
  readonly instance: InstanceName
  readonly configuration: ConfigurationName
}

interface SlotBookOptions extends ReservationOptions {
  readonly cluster: { readonly instances: Cluster['instances'] }
  /** The Pods of this node; undefined if Pods are not watched. */
  readonly kubelet: { readonly pods: NodePods | undefined }
  /** The other system whose agents read the ids of claims. @default off */
  readonly compatibility?: Compatibility | undefined
}

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
  readonly #served = new Map<InstanceName, ServedInstance>()
  /** Made for a question after a change of a fact: a request can change 500 slots. */
  readonly #slots = new Map<InstanceName, InstanceSlots>()
  readonly #lost = new Map<InstanceName, LostDevice>()
  readonly #changes = new Listeners<[resource: string]>()
  readonly #losses = new Listeners<[device: LostDevice, isOver: boolean]>()
  readonly #stop = new AbortController()

  constructor(options: SlotBookOptions) {
    const { node, kubelet } = options
    const { instances } = options.cluster
    const { signal } = this.#stop
    this.#options = options
    this.node = node
    this.allocations = new AllocationLedger({ node, pods: kubelet.pods })
    const changed = (key: ObjectKey) => {
      const served = this.served(keyParts(key).name as InstanceName)
      if (served?.key === key) this.#changed(served)
    }
    this.#reservations = new SlotReservations({ ...options, onExpired: changed, signal })
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
    this.#lost.delete(served.name)
    this.#served.set(served.name, served)
    this.#changed(served)
  }

  /** @param isLost whether the device is gone */
  withdraw({ name, configuration, device }: ServedInstance, isLost: boolean): void {
    this.#served.delete(name)
    this.#slots.delete(name)
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

  /** All ids of a resource, in a stable order. */
  advertise({ level, owner, name }: Resource): AdvertisedDevice[] {
    if (level === 'instance') return advertisedSlots(this.of(owner))
    const inUse = this.lost(owner).flatMap((each) => this.allocations.inUse(each))
    const lost = inUse.flatMap(({ resourceName, id }) => (resourceName === name ? id : []))
    return advertisedIds(this.all(owner), lost, this.#form(owner))
  }

  /** The ids of a resource that the kubelet should choose for a container. */
  prefer({ level, owner }: Resource, request: PreferenceRequest): string[] {
    if (level === 'instance') return preferredSlots(this.of(owner), request)
    return preferredIds(this.all(owner), request, this.#form(owner))
  }

  /** The slots for the ids of each container. @throws AllocationRefusedError */
  choose({ level, owner }: Resource, requests: readonly (readonly string[])[]): ChosenSlot[][] {
    if (level === 'configuration') return chooseSlots(this.all(owner), requests, this.#form(owner))
    const slots = this.of(owner)
    if (slots !== undefined) return chosenSlots(slots, requests, this.allocations.claimsIn(owner))
    throw new AllocationRefusedError(`the device of Instance ${owner} was removed`)
  }

  /** Undefined if this node does not serve the Instance. */
  served(name: InstanceName): ServedInstance | undefined {
    return this.#served.get(name)
  }

  /** Undefined if this node does not serve the Instance. */
  of(name: InstanceName): InstanceSlots | undefined {
    const served = this.#served.get(name)
    const before = this.#slots.get(name)
    if (served === undefined || before !== undefined) return before
    const instance = this.#options.cluster.instances.get(served.key)
    const usage = instance && this.#reservations.usage(served.key, instance)
    const inUse = this.allocations.claimsIn(name)
    const slots = instanceSlots(this.node, served, instance, usage, inUse)
    this.#slots.set(name, slots)
    return slots
  }

  /** Of all Instances of a Configuration that this node serves. */
  all(configuration: ConfigurationName): readonly InstanceSlots[] {
    const all: InstanceSlots[] = []
    for (const { name, configuration: of } of this.#served.values()) {
      const slots = of === configuration ? this.of(name) : undefined
      if (slots !== undefined) all.push(slots)
    }
    return all
  }

  /** The Instances of a Configuration whose devices are gone while containers use them. */
  lost(configuration: ConfigurationName): readonly InstanceName[] {
    const devices = [...this.#lost.values()]
    return devices.flatMap((each) => (each.configuration === configuration ? each.instance : []))
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
      for await (const served of inTurns(this.#served.values())) {
        if (signal.aborted) return
        this.#changed(served)
        this.of(served.name)
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
    this.#slots.delete(name)
    this.#tell(name)
    this.#tell(configuration)
  }

  #tell(name: InstanceName | ConfigurationName): void {
    this.#changes.tell(`${GROUP}/${name}`)
  }

  /** The text before the numbers of unclaimed ids: the other system reads `cam-0`, `cam-1`. */
  #form(configuration: ConfigurationName): string | undefined {
    return this.#options.compatibility === 'akri-0.13' ? `${configuration}-` : undefined
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
  const beyond: [SlotName, SlotUsage][] = []
  for (const [name, claim] of Object.entries(claims)) {
    const slot = name as SlotName
    if (claim !== '' && !slots.has(slot)) beyond.push([slot, parseSlotUsage(claim)])
  }
  const usable = served.healthy && state === 'there'
  const unclaimed = [...slots].flatMap(([slot, { level }]) => (level === 'free' ? slot : []))
  // After the capacity was lowered, as many free slots wait as claims are beyond the capacity.
  const count = usable ? Math.max(0, unclaimed.length - beyond.length) : 0
  const claimable = new Set(unclaimed.slice(0, count))
  const free: SlotName[] = []
  const own: SlotName[] = []
  for (const [slot, usage] of slotsInClaimOrder(slots, node, instance?.spec.nodes ?? [])) {
    if (claimable.has(slot)) free.push(slot)
    if (usage.level === 'instance' && usage.node === node) own.push(slot)
  }
  const byId = new Map<string, SlotName>()
  // The kubelet knows the ids of slots beyond the capacity until their Pods end. Two slots with one
  // id are an error of another writer: the first counts.
  for (const [slot, claim] of [...slots, ...beyond])
    if (claim.level === 'configuration' && claim.node === node && !byId.has(claim.virtualId))
      byId.set(claim.virtualId, slot)
  return { served, state, usable, slots, free, own, byId }
}

/**
 * The slots of an Instance. A slot is healthy if it can be claimed, or if this node has it through
 * the Instance's resource. While the Instance does not exist, as before it is created again, these
 * are the slots of running containers: the device is there, and the kubelet shows that in Pods.
 */
export function advertisedSlots(instance: InstanceSlots | undefined): AdvertisedDevice[] {
  if (instance === undefined) return []
  const { served, slots, free, own } = instance
  const offered = new Set<string>(served.healthy ? [...free, ...own] : [])
  return Array.from(slots.keys(), (id) => ({ id, healthy: offered.has(id) }))
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
