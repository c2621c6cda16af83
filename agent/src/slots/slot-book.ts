import { type ConfigurationName, type InstanceName, possibleOwner } from '@akrijs/api'
import { keyOf, keyParts, type NodeName, type ObjectKey } from '@akrijs/kube/objects'
import { type Clock, isTurnOver, Listeners, nextTurn } from '@akrijs/runtime'
import type { Cluster } from '../cluster/cluster.js'
import type { ServedInstance } from '../instances/served-instance.js'
import type { NodePods } from '../kubelet/kubelet.js'
import { AllocationLedger, instanceOf } from './allocation-ledger.js'
import { type InstanceSlots, instanceSlots, isSameOffer } from './instance-slots.js'
import { SlotReservations } from './slot-reservations.js'

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

/** What the kubelet has to be told again. */
interface OfferChange {
  readonly configuration: ConfigurationName
  /** Undefined if only the resource of the Configuration has changed. */
  readonly instance: InstanceName | undefined
}

/** The slots of one Configuration. */
interface Page {
  readonly slots: Map<InstanceName, InstanceSlots>
  /** The Instances whose devices are gone while containers use them. */
  readonly lost: Set<InstanceName>
}

/**
 * Longer than the scheduler puts a Pod off that found no node: 10 s at most, and a second until it
 * looks (`podMaxBackoffSeconds` in the KubeSchedulerConfiguration API).
 */
const SLOT_HANDOVER_MS = 15_000

/**
 * All that this node knows of the slots of its devices: the claims that Instances record, the
 * slots that its containers have, and those that are reserved for other nodes. It does no I/O:
 * facts come in, and plugins ask what they may offer. The slots of an Instance are made anew after
 * each change of one of its facts, for both levels.
 */
export class SlotBook {
  /** The slots that the containers of this node have. */
  readonly allocations: AllocationLedger
  readonly #options: SlotBookOptions
  readonly #reservations: SlotReservations
  readonly #pages = new Map<ConfigurationName, Page>()
  readonly #changes = new Listeners<[change: OfferChange]>()
  readonly #lossOver = new Listeners<[configuration: ConfigurationName]>()
  readonly #stop = new AbortController()

  constructor(options: SlotBookOptions) {
    const { cluster, node, kubelet, clock, slotHandoverMs = SLOT_HANDOVER_MS } = options
    this.#options = options
    this.allocations = new AllocationLedger({ node, pods: kubelet.pods })
    this.#reservations = new SlotReservations({
      node,
      clock,
      reservationMs: slotHandoverMs,
      onExpired: (key) => this.#instanceChanged(key),
    })
    const { instances } = cluster
    // A claim from before the start of the agent is reserved for its node too when it is released.
    for (const instance of instances.list())
      this.#reservations.instanceChanged(keyOf(instance), instance)
    instances.onChange((key) => {
      this.#reservations.instanceChanged(key, instances.get(key))
      this.#instanceChanged(key)
    }, this.#stop.signal)
    this.allocations.onChange(
      (slot) => this.#allocationChanged(instanceOf(slot)),
      this.#stop.signal,
    )
  }

  /** Takes over a device that this node serves, or a new state of it. */
  serve(served: ServedInstance): void {
    this.#pageOf(served.configuration).lost.delete(served.name)
    this.#update(served)
  }

  /** @param lost whether the device is gone */
  withdraw({ name, configuration }: ServedInstance, lost: boolean): void {
    this.#pageOf(configuration).slots.delete(name)
    if (lost) this.lose(configuration, name)
    this.#forget(configuration)
    this.#changes.tell({ configuration, instance: undefined })
  }

  /** The device of an Instance is gone that this node does not serve. */
  lose(configuration: ConfigurationName, name: InstanceName): void {
    if (this.allocations.inUse(name).length === 0) return
    const { slots, lost } = this.#pageOf(configuration)
    if (slots.has(name)) return
    lost.add(name)
    this.#changes.tell({ configuration, instance: undefined })
  }

  /** Undefined if this node does not serve the Instance. */
  of(name: InstanceName): InstanceSlots | undefined {
    return this.#pageWith(name)?.slots.get(name)
  }

  /** Of all Instances of a Configuration that this node serves. */
  all(configuration: ConfigurationName): readonly InstanceSlots[] {
    return [...(this.#pages.get(configuration)?.slots.values() ?? [])]
  }

  /** The Instances of a Configuration whose devices are gone while containers use them. */
  lost(configuration: ConfigurationName): Iterable<InstanceName> {
    return this.#pages.get(configuration)?.lost ?? []
  }

  isLost(name: InstanceName): boolean {
    return this.#pageWith(name)?.lost.has(name) === true
  }

  /** Calls back after what this node offers has changed. */
  onChange(listener: (change: OfferChange) => void, signal: AbortSignal): void {
    this.#changes.add(listener, signal)
  }

  /** Calls back when no Pod of this node has a device of `lost` any more. */
  onLossOver(listener: (configuration: ConfigurationName) => void, signal: AbortSignal): void {
    this.#lossOver.add(listener, signal)
  }

  /** Makes all slots again in turns with other work, in case that a change was missed. */
  async refresh(): Promise<void> {
    for (const { slots } of this.#pages.values())
      for (const { served } of slots.values()) {
        this.#update(served)
        if (isTurnOver()) await nextTurn()
      }
  }

  close(): void {
    this.#stop.abort()
    this.#reservations.close()
  }

  #instanceChanged(key: ObjectKey): void {
    const served = this.of(keyParts(key).name as InstanceName)?.served
    if (served?.key === key) this.#update(served)
  }

  #allocationChanged(name: InstanceName): void {
    const configuration = possibleOwner(name)
    const page = this.#pageWith(name)
    if (configuration === undefined || page === undefined) return
    const { served, usable } = page.slots.get(name) ?? {}
    if (served !== undefined) this.#update(served)
    // A list names the ids of containers also while the device cannot be allocated.
    if (usable === false) this.#changes.tell({ configuration, instance: name })
    if (!page.lost.has(name)) return
    this.#changes.tell({ configuration, instance: undefined })
    if (this.allocations.inUse(name).length > 0) return
    page.lost.delete(name)
    this.#forget(configuration)
    this.#lossOver.tell(configuration)
  }

  #update(served: ServedInstance): void {
    const { cluster, node } = this.#options
    const { name, configuration, key } = served
    const { slots } = this.#pageOf(configuration)
    const instance = cluster.instances.get(key)
    const usage = instance && this.#reservations.usage(key, instance)
    const inUse = this.allocations.claimsIn(name)
    const before = slots.get(name)
    const after = instanceSlots({ served, instance, usage, inUse }, node)
    slots.set(name, after)
    if (before === undefined || !isSameOffer(before, after))
      this.#changes.tell({ configuration, instance: name })
  }

  #pageOf(configuration: ConfigurationName): Page {
    const page = this.#pages.get(configuration) ?? { slots: new Map(), lost: new Set() }
    this.#pages.set(configuration, page)
    return page
  }

  #pageWith(name: InstanceName): Page | undefined {
    const configuration = possibleOwner(name)
    return configuration && this.#pages.get(configuration)
  }

  #forget(configuration: ConfigurationName): void {
    const page = this.#pages.get(configuration)
    if (page !== undefined && page.slots.size + page.lost.size === 0)
      this.#pages.delete(configuration)
  }
}
