import type { Configuration, ConfigurationName, Instance, SlotName } from '@akrijs/api'
import { type NodeName, type ObjectKey, objectKey } from '@akrijs/kube/objects'
import { silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import type { SlotsInUse } from '../cluster/cluster.js'
import { ObjectStore } from '../cluster/object-store.js'
import { KubeletUnavailableError } from '../errors.js'
import type { NodePods, PodAllocation } from '../kubelet/kubelet.js'
import { noopObserver } from '../report/observer.js'
import type { AllocationLedger } from '../slots/allocation-ledger.js'
import type { Resource } from '../slots/resource.js'
import { type LostDevice, SlotBook } from '../slots/slot-book.js'
import { SlotClaims } from '../slots/slot-claims.js'
import { SlotReconciler } from '../slots/slot-reconciler.js'
import { instanceWith, servedWith } from './objects.js'

// For tests of the slot reconciler: the Instance `cam-8120fe`, and a Pod that may use its slots by
// both resources.

export const key = objectKey('default', 'cam-8120fe')
export const pod = objectKey('default', 'pod')
export const slot = (index: number) => `cam-8120fe-${index}` as SlotName
export const holds = (...ids: string[]) =>
  new Map([['akri.sh/cam-8120fe', [{ pod, ids: new Set(ids) }]]])
export const holdsAny = (...ids: string[]) =>
  new Map([['akri.sh/cam', [{ pod, ids: new Set(ids) }]]])

const NODE = 'node-a' as NodeName

/** The slot reconciler of `node-a`, with a cluster and a kubelet that a test controls. */
export class SlotReconcilerHarness {
  readonly clock = new ManualClock(1_000_000)
  readonly instances = new ObjectStore<Instance>()
  readonly configurations = new ObjectStore<Configuration>()
  readonly book: SlotBook
  readonly ledger: AllocationLedger
  readonly claims: SlotClaims
  readonly reconciler: SlotReconciler
  readonly stop = new AbortController()
  /** The list of the kubelet; undefined while the kubelet refuses. */
  listed: Map<string, PodAllocation[]> | undefined = new Map()
  /**
   * The Pods that request a resource, and how many ids each may have; undefined if Pods are not
   * watched.
   */
  users: Map<ObjectKey, number> | undefined
  /** Whether all Pods have been seen. */
  synced = true
  readonly ended = new Set<ObjectKey>()
  /** The slots that containers use, as they were last reported. */
  used: SlotsInUse = new Map()
  /** The writes: the slot and its new claim. */
  readonly written: string[] = []
  readonly events: string[] = []
  /** The messages of the log at level info. */
  readonly messages: string[] = []
  /** How often the kubelet was asked. */
  asked = 0
  /** The reports of a broker are read before its slot is released. */
  beforeRelease: (slot: SlotName) => Promise<unknown> = async () => {}
  /** Whether the API server refuses. */
  failing = false
  /** Whether the kubelet does not answer. */
  hanging = false
  /** The kubelet answers after this. */
  busy: Promise<unknown> = Promise.resolve()
  /** Reports that a Pod has started, has ended or was deleted. */
  podChanged: (change: 'started' | 'gone') => void = () => {}
  readonly podGone = () => this.podChanged('gone')
  /** The fields of the Instance besides its claims. */
  #spec: Partial<Instance['spec']> = {}
  #ran: Promise<void> | undefined

  constructor() {
    const node = NODE
    const pods = this.#pods()
    const watched = () => this.users && pods
    this.book = new SlotBook({
      cluster: { instances: this.instances },
      node,
      clock: this.clock,
      kubelet: { pods },
    })
    this.ledger = this.book.allocations
    this.claims = new SlotClaims({
      cluster: {
        claimSlot: async () => ({ outcome: 'claimed' }),
        releaseSlot: async () => 'gone',
      },
      clock: this.clock,
      observer: noopObserver,
      book: { node, served: () => servedWith(), allocations: { record: () => {} } },
    })
    this.reconciler = new SlotReconciler({
      clock: this.clock,
      log: { ...silentLogger, info: (_fields, message) => this.messages.push(message) },
      node,
      claims: this.claims,
      book: this.book,
      observer: noopObserver,
      brokerInfo: {
        flush: async (_key, which) => {
          await this.beforeRelease(which)
        },
      },
      cluster: {
        instances: this.instances,
        configurations: this.configurations,
        restoreSlot: async (_key, which, wanted) => {
          if (this.failing) throw new TypeError('the API server is away')
          const by = this.usage()[which] ?? ''
          if (by !== '') return { outcome: 'taken', by }
          this.#write(which, wanted)
          return { outcome: 'claimed' }
        },
        releaseSlot: async (_key, which, held) => {
          if (this.usage()[which] !== held) return 'changed'
          this.#write(which, '')
          return 'released'
        },
        reportSlots: (used) => {
          this.used = used
        },
        recordEvent: ({ regarding: { kind, key: of, uid }, reason, message }) =>
          this.events.push(`${kind} ${of}${uid ? ` (${uid})` : ''} ${reason}: ${message}`),
      },
      kubelet: {
        listAllocated: async (signal) => {
          this.asked++
          if (this.hanging)
            await new Promise((_, reject) =>
              signal.addEventListener('abort', reject, { once: true }),
            )
          await this.busy
          if (this.listed === undefined) throw new KubeletUnavailableError('away')
          return this.listed
        },
        get pods(): NodePods | undefined {
          return watched()
        },
      },
    })
  }

  reconcile(): Promise<unknown> {
    return this.reconciler.reconcile(this.stop.signal)
  }

  run(): void {
    this.#ran = this.reconciler.run(this.stop.signal)
  }

  async end(): Promise<void> {
    this.stop.abort()
    this.book.close()
    await this.#ran
  }

  /** Writes the Instance. */
  put(deviceUsage: Record<string, string>, more: Partial<Instance['spec']> = {}): void {
    this.#spec = more
    this.instances.put(instanceWith(deviceUsage, { capacity: 3, ...more }))
  }

  usage(): Readonly<Record<string, string>> {
    return this.instances.get(key)?.spec.deviceUsage ?? {}
  }

  /** Claims slots, as a plugin does for a container. */
  claim(...slots: SlotName[]): Promise<unknown> {
    const chosen = slots.map((each) => ({
      id: each,
      slot: each,
      instance: servedWith(),
    }))
    const resource: Resource = {
      level: 'instance',
      name: 'akri.sh/cam-8120fe',
      advertise: () => [],
      prefer: () => [],
      choose: () => [chosen],
    }
    return this.claims.allocate(resource, [slots])
  }

  lose(device: Omit<LostDevice, 'configuration'>): void {
    this.book.lose({ ...device, configuration: 'cam' as ConfigurationName })
  }

  #write(which: SlotName, wanted: string): void {
    this.written.push(`${which} ${wanted === '' ? 'free' : wanted}`)
    this.put({ ...this.usage(), [which]: wanted }, this.#spec)
  }

  #pods(): NodePods {
    const { ended } = this
    const [synced, users] = [() => this.synced, () => this.users]
    return {
      get synced() {
        return synced()
      },
      lagMs: 100,
      users: (resource) => new Map(resource.startsWith('akri.sh/cam') ? users() : []),
      hasEnded: (each) => ended.has(each),
      uidOf: (each) => `uid-of-${each}`,
      startedAt: (each) => `start-of-${each}`,
      onChange: (listener) => {
        this.podChanged = listener
      },
    }
  }
}
