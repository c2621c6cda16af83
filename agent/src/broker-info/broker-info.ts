import { setMaxListeners } from 'node:events'
import type { SlotName } from '@akrijs/api'
import { keyOf, type ObjectKey } from '@akrijs/kube/objects'
import { ReconcileQueue } from '@akrijs/kube/queue'
import { runAfter } from '@akrijs/runtime'
import type { WorkloadDirectoryMaker } from '../plugins/allocation.js'
import type { AgentObserver } from '../report/observer.js'
import type { AllocationLedger } from '../slots/allocation-ledger.js'
import { BrokerInfoReconciler, type BrokerInfoReconcilerOptions } from './broker-info-reconciler.js'
import { WorkloadDirectories } from './workload-directories.js'

interface BrokerInfoOptions extends Omit<BrokerInfoReconcilerOptions, 'directories' | 'onChange'> {
  readonly ledger: Pick<AllocationLedger, 'ofSlot' | 'usersOf' | 'onChange'>
  readonly observer: Pick<AgentObserver, 'failed' | 'reconciling'>
  /**
   * The directory of the workloads' directories: the same path for the kubelet, which mounts them.
   */
  readonly directory: string
}

/**
 * A file is empty when its writer opens it. It is read so long after the first change, in
 * milliseconds.
 */
const SETTLE_MS = 50
/** How often all files are read in case that a change was missed, in milliseconds. */
const RESCAN_MS = 30_000

/**
 * What workloads write into their directories becomes `status.brokerInfo` of their Instances. A
 * workload is known by its slot. Its directory starts with the claim. It ends when the slot is free
 * and no container has the slot.
 */
export class BrokerInfo implements WorkloadDirectoryMaker {
  readonly #options: BrokerInfoOptions
  readonly #directories: WorkloadDirectories
  readonly #reconciler: BrokerInfoReconciler
  readonly #queue: ReconcileQueue<ObjectKey>
  readonly #stop = new AbortController()
  #running: Promise<unknown> = Promise.resolve()
  #isFull = false

  constructor(options: BrokerInfoOptions) {
    this.#options = options
    const { clock, log, observer, directory } = options
    this.#directories = new WorkloadDirectories(directory, log)
    this.#reconciler = new BrokerInfoReconciler({
      ...options,
      directories: this.#directories,
      onChange: (key) => this.#addSoon(key),
    })
    // A listener for each directory that has just changed.
    setMaxListeners(0, this.#stop.signal)
    this.#queue = new ReconcileQueue<ObjectKey>({
      clock,
      reconcile: (key) => observer.reconciling('BrokerInfo', () => this.#reconciler.reconcile(key)),
      onError: (instance, error, retryInMs) =>
        log.warn({ instance, err: error, retryInMs }, 'broker info not reported'),
    })
  }

  /**
   * Takes over the directories of the agent before. Call it when the Instances and the allocations
   * are known.
   */
  async start(): Promise<void> {
    const { cluster, log, observer, directory, ledger } = this.#options
    // Devices are more important than reports: the agent goes on without directories.
    const found = await this.#directories.open().catch((error: unknown) => {
      log.error({ directory, err: error }, 'broker info directory not made')
      observer.failed('StateNotWritten', error)
      return []
    })
    void this.#directories.removeAside()
    for (const { instance, slot, path } of found)
      this.#reconciler.follow(instance, slot, path, false)
    cluster.instances.onChange((key) => this.#changed(key), this.#stop.signal)
    ledger.onChange((slot) => {
      for (const key of this.#reconciler.keys)
        if (this.#reconciler.has(key, slot)) this.#queue.add(key)
    }, this.#stop.signal)
    for (const instance of cluster.instances.list()) this.#changed(keyOf(instance))
    for (const key of this.#reconciler.keys) this.#queue.add(key)
    this.#running = Promise.all([this.#queue.run(this.#stop.signal), this.#rescan()])
  }

  /**
   * Makes an empty directory for the next workload of the slot.
   * @returns undefined after a failure: a container can start without a directory
   */
  async open(instance: ObjectKey, slot: SlotName): Promise<string | undefined> {
    try {
      const path = await this.#directories.renew(instance, slot)
      this.#reconciler.follow(instance, slot, path, true)
      // Later, because the kubelet waits and the directory is empty.
      if (this.#directories.hasAside || this.#reconciler.isDue(instance)) this.#addSoon(instance)
      return path
    } catch (error) {
      this.#reconciler.unfollow(instance, slot)
      this.#queue.add(instance)
      const { log, observer } = this.#options
      log.warn({ slot, err: error }, 'broker info directory not made')
      observer.failed('StateNotWritten', error)
      return undefined
    }
  }

  /** How many Instances wait for a reconcile. */
  get queued(): number {
    return this.#queue.depth
  }

  prepare(instance: ObjectKey, slot: SlotName): void {
    void this.#directories.prepare(instance, slot)
  }

  discard(instance: ObjectKey, slot: SlotName): void {
    void this.#directories.discard(instance, slot)
  }

  /**
   * Reports at once what the workload has written: its slot is about to be freed. Never rejects.
   */
  async flush(key: ObjectKey, slot: SlotName): Promise<void> {
    await this.#reconciler
      .flush(key, slot)
      .catch((error: unknown) =>
        this.#options.log.warn({ slot, err: error }, 'last broker info not reported'),
      )
  }

  async close(): Promise<void> {
    this.#stop.abort()
    await this.#running
    await this.#reconciler.close()
    await this.#directories.close()
  }

  #changed(key: ObjectKey): void {
    if (this.#reconciler.isDue(key)) this.#queue.add(key)
  }

  #addSoon(key: ObjectKey): void {
    runAfter(this.#options.clock, SETTLE_MS, this.#stop.signal, () => this.#queue.add(key))
  }

  async #rescan(): Promise<void> {
    const { signal } = this.#stop
    while (!signal.aborted) {
      await this.#options.clock.sleep(RESCAN_MS, signal).catch(() => undefined)
      void this.#directories.removeAside({ again: true })
      this.#reconciler.expire()
      for (const key of this.#reconciler.keys) this.#queue.add(key)
      await this.#reportRoom()
    }
  }

  /** Only the writers see that a file system is full. */
  async #reportRoom(): Promise<void> {
    const { directory, log, observer } = this.#options
    const isFull = await this.#directories.isFull().catch(() => false)
    if (isFull && !this.#isFull) log.warn({ directory }, 'no room for broker info')
    if (isFull) observer.failed('DiskFull', `no room for reports of containers in ${directory}`)
    this.#isFull = isFull
  }
}
