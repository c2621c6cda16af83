import { holderOf, type PodToEnd, type SlotName } from '@akrijs/api'
import { keyOf, type NodeName, type ObjectKey } from '@akrijs/kube/objects'
import { ReconcileQueue, type ReconcileResult } from '@akrijs/kube/queue'
import { type Clock, type Logger, TokenBucket } from '@akrijs/runtime'
import type { Cluster } from '../cluster/cluster.js'
import type { NodePods } from '../kubelet/kubelet.js'
import type { WorkloadDirectoryMaker } from '../plugins/allocation.js'
import type { AgentObserver } from '../report/observer.js'
import type { AllocationLedger } from '../slots/allocation-ledger.js'
import { entryOf, type Orphans, planBrokerInfo, planOrphans } from './broker-info-plan.js'
import { Workload } from './workload.js'
import { WorkloadDirectories } from './workload-directories.js'

interface BrokerInfoOptions {
  readonly cluster: Pick<
    Cluster,
    'instances' | 'reportBrokerInfo' | 'recordEvent' | 'reportPodsToEnd'
  >
  readonly node: NodeName
  /** The slots of running containers, also when their Instance has lost the claim. */
  readonly ledger: Pick<AllocationLedger, 'ofSlot' | 'onChange'>
  readonly kubelet: { readonly pods: Pick<NodePods, 'uidOf'> | undefined }
  readonly observer: Pick<AgentObserver, 'failed' | 'reconciling'>
  /** The directory of the workloads' directories: the kubelet mounts them by the same path. */
  readonly directory: string
  readonly clock: Clock
  readonly log: Logger
}

// All times are in milliseconds.
/** From a change to the look at the files, or half as long: a file is empty when it is opened. */
const SETTLE_MS = 50
/**
 * From one look at the files of an Instance, and its write, to the next, or half as long: however
 * often workloads write. A report is in its Instance within a second, also if the server is slow.
 */
const GATHER_MS = 900
/** How often a directory without a watch is read, and entries of free slots are checked. */
const POLL_MS = 2000
/** How often all files are read in case that a change was missed. */
const RESCAN_MS = 30_000
/** Writes for all workloads of a node, however often they change their files. */
const WRITE_BUDGET = { burst: 100, refillMs: 100 }

interface FollowedInstance {
  readonly workloads: Map<SlotName, Workload>
  orphans: Orphans
  /** The time of the last look. */
  lookedAt: number
  /** Reconciles of one Instance run in order. */
  last: Promise<unknown>
}

/**
 * What workloads write into their directories becomes `status.brokerInfo` of their Instances. A
 * workload is known by its slot. Its directory starts with the claim. It ends when the slot is free
 * and no container has the slot.
 */
export class BrokerInfo implements WorkloadDirectoryMaker {
  readonly #options: BrokerInfoOptions
  readonly #directories: WorkloadDirectories
  readonly #queue: ReconcileQueue<ObjectKey>
  readonly #budget: TokenBucket
  readonly #instances = new Map<ObjectKey, FollowedInstance>()
  readonly #stop = new AbortController()
  #running: Promise<unknown> = Promise.resolve()

  constructor(options: BrokerInfoOptions) {
    this.#options = options
    const { clock, log, observer, directory } = options
    this.#directories = new WorkloadDirectories(directory, log)
    this.#budget = new TokenBucket({ clock, ...WRITE_BUDGET })
    this.#queue = new ReconcileQueue<ObjectKey>({
      clock,
      reconcile: (key) => observer.reconciling('BrokerInfo', () => this.#reconcile(key)),
      onError: (instance, error, retryInMs) =>
        log.warn({ instance, err: error, retryInMs }, 'broker info not reported'),
    })
  }

  /** Takes over the directories of the last agent, once Instances and allocations are known. */
  start(): void {
    const { cluster, log, observer, directory, ledger } = this.#options
    const { signal } = this.#stop
    try {
      for (const { instance, slot, path } of this.#directories.open())
        this.#follow(instance, slot, path, false)
    } catch (error) {
      // Devices are more important than reports: the agent goes on without directories.
      log.error({ directory, err: error }, 'broker info directory not made')
      observer.failed('StateNotWritten', error)
    }
    void this.#directories.removeAside()
    // Most Instances have neither an entry nor a workload.
    const changed = (key: ObjectKey) => {
      const { brokerInfoSlots = {} } = cluster.instances.get(key)?.status ?? {}
      if (this.#instances.has(key) || Object.keys(brokerInfoSlots).length > 0) this.#add(key)
    }
    cluster.instances.onChange(changed, signal)
    ledger.onChange((slot) => {
      for (const [key, { workloads }] of this.#instances) if (workloads.has(slot)) this.#add(key)
    }, signal)
    for (const instance of cluster.instances.list()) changed(keyOf(instance))
    for (const key of this.#instances.keys()) this.#add(key)
    this.#running = Promise.all([this.#queue.run(signal), this.#rescan()])
  }

  /**
   * Makes an empty directory for the next workload of the slot.
   * @returns undefined after a failure: a container can start without a directory
   */
  async open(instance: ObjectKey, slot: SlotName): Promise<string | undefined> {
    const { log, observer } = this.#options
    this.#add(instance)
    this.#end(this.#instances.get(instance)?.workloads, slot)
    try {
      const path = this.#directories.renew(instance, slot)
      this.#follow(instance, slot, path, true)
      return path
    } catch (error) {
      log.warn({ slot, err: error }, 'broker info directory not made')
      observer.failed('StateNotWritten', error)
      return undefined
    }
  }

  /** How many Instances wait for a reconcile. */
  get queued(): number {
    return this.#queue.depth
  }

  /** Reports at once what a workload has written whose slot is about to be freed. Never rejects. */
  async flush(key: ObjectKey, slot: SlotName): Promise<void> {
    const workload = this.#instances.get(key)?.workloads.get(slot)
    if (workload === undefined) return
    workload.expire()
    await this.#reconcile(key, true).catch((error: unknown) =>
      this.#options.log.warn({ slot, err: error }, 'last broker info not reported'),
    )
  }

  async close(): Promise<void> {
    this.#stop.abort()
    await this.#running
    for (const { last, workloads } of this.#instances.values()) {
      await last
      for (const workload of workloads.values()) workload.close()
    }
    await this.#directories.close()
  }

  #add(key: ObjectKey): void {
    const { lookedAt = Number.NEGATIVE_INFINITY } = this.#instances.get(key) ?? {}
    const restMs = lookedAt + GATHER_MS - this.#options.clock.monotonicMs()
    this.#queue.add(key, Math.max(SETTLE_MS, restMs))
  }

  #follow(key: ObjectKey, slot: SlotName, path: string, isNew: boolean): void {
    const workload = new Workload(path, isNew, {
      onChange: () => this.#add(key),
      onRefusal: (message) => this.#refused(key, slot, message),
      dropInner: (inner) => this.#directories.dropInner(inner),
    })
    this.#followed(key).workloads.set(slot, workload)
  }

  #end(workloads: FollowedInstance['workloads'] | undefined, slot: SlotName): void {
    workloads?.get(slot)?.close()
    workloads?.delete(slot)
  }

  #followed(key: ObjectKey): FollowedInstance {
    const followed = this.#instances.get(key) ?? {
      workloads: new Map(),
      orphans: new Map(),
      lookedAt: Number.NEGATIVE_INFINITY,
      last: Promise.resolve(),
    }
    this.#instances.set(key, followed)
    return followed
  }

  #reconcile(key: ObjectKey, atOnce = false): Promise<ReconcileResult> {
    const followed = this.#followed(key)
    const result = followed.last.then(() => this.#update(key, atOnce))
    followed.last = result.catch(() => undefined)
    return result
  }

  async #update(key: ObjectKey, atOnce: boolean): Promise<ReconcileResult> {
    const { cluster, node, clock } = this.#options
    const followed = this.#followed(key)
    const { workloads } = followed
    followed.lookedAt = clock.monotonicMs()
    this.#dropFreed(key, followed)
    for (const workload of [...workloads.values()].filter(({ isDue }) => isDue))
      await workload.read()
    this.#reportPodsToEnd()
    void this.#directories.removeAside()
    const instance = cluster.instances.get(key)
    if (instance === undefined) {
      if (workloads.size === 0) this.#instances.delete(key)
      return {}
    }
    const own = { node, now: clock.monotonicMs(), workloads }
    const { orphans, abandoned } = planOrphans(instance, followed.orphans, own)
    followed.orphans = orphans
    const reports = { workloads: new Map(workloads), abandoned }
    const { patch, leftOut } = planBrokerInfo(instance, node, reports)
    for (const { slot, name } of leftOut) workloads.get(slot)?.refuse('room', name)
    if (patch.length > 0) {
      const budgetInMs = this.#budget.take()
      if (budgetInMs > 0 && !atOnce) return { requeueAfterMs: budgetInMs }
      await cluster.reportBrokerInfo(key, node, reports)
    }
    for (const { fresh } of reports.workloads.values()) fresh.clear()
    if (workloads.size + orphans.size === 0) this.#instances.delete(key)
    // Of a workload beyond its bound, the kubelet may not have named the Pod yet.
    const isPolled = [...workloads.values()].some(({ isDue, mustEnd }) => isDue || mustEnd)
    return isPolled || orphans.size > 0 ? { requeueAfterMs: POLL_MS } : {}
  }

  /** Ends the workloads whose slot this node does not hold, and no container has. */
  #dropFreed(key: ObjectKey, { workloads, orphans }: FollowedInstance): void {
    const { cluster, ledger, node } = this.#options
    const { deviceUsage = {} } = cluster.instances.get(key)?.spec ?? {}
    for (const [slot, { path }] of [...workloads]) {
      if (holderOf(entryOf(deviceUsage, slot)) === node || ledger.ofSlot(slot).length > 0) continue
      this.#directories.drop(path)
      orphans.set(slot, Number.NEGATIVE_INFINITY)
      this.#end(workloads, slot)
    }
  }

  /** Asks for the end of the Pods whose workloads are beyond their bound. */
  #reportPodsToEnd(): void {
    const { cluster, kubelet, ledger } = this.#options
    const pods = new Map<ObjectKey, PodToEnd>()
    for (const { workloads } of this.#instances.values())
      for (const [slot, { mustEnd, podUids }] of workloads)
        for (const held of mustEnd ? ledger.ofSlot(slot) : [])
          for (const pod of held.users ?? []) {
            const uid = kubelet.pods?.uidOf(pod)
            if (uid === undefined) continue
            if (!podUids.has(pod)) podUids.set(pod, uid)
            if (podUids.get(pod) === uid) pods.set(pod, { uid, slot })
          }
    cluster.reportPodsToEnd(pods)
  }

  #refused(key: ObjectKey, slot: SlotName, message: string): void {
    const { cluster, log } = this.#options
    cluster.recordEvent({
      regarding: { kind: 'Instance', key },
      type: 'Warning',
      reason: 'BrokerInfoRefused',
      message: `the workload of slot ${slot}: ${message}`,
    })
    log.warn({ slot, reason: message }, 'broker info refused')
  }

  async #rescan(): Promise<void> {
    const { clock, directory, log, observer } = this.#options
    const { signal } = this.#stop
    let wasFull = false
    while (!signal.aborted) {
      await clock.sleep(RESCAN_MS, signal).catch(() => undefined)
      void this.#directories.removeAside({ again: true })
      for (const [key, { workloads }] of this.#instances) {
        for (const workload of workloads.values()) workload.expire()
        this.#add(key)
      }
      // Only the writers see that a file system is full.
      const isFull = await this.#directories.isFull().catch(() => false)
      if (isFull && !wasFull) log.warn({ directory }, 'no room for broker info')
      if (isFull) observer.failed('DiskFull', `no room for reports of containers in ${directory}`)
      wasFull = isFull
    }
  }
}
