import { setMaxListeners } from 'node:events'
import { holderOf, type Instance, type SlotName } from '@akrijs/api'
import { keyOf, type NodeName, type ObjectKey, ReconcileQueue } from '@akrijs/kube'
import type { Clock, Logger, TokenBucket } from '@akrijs/runtime'
import type { AllocationLedger } from '../core/slots/allocation-ledger.js'
import type { Cluster } from '../ports/cluster.js'
import { type BrokerInfoPlan, isEmpty, own, planBrokerInfo } from './broker-info-plan.js'
import { FollowedWorkload } from './followed-workload.js'
import { WorkloadDirectories } from './workload-directories.js'
import { writeBudget } from './write-budget.js'

export interface BrokerInfoOptions {
  readonly cluster: Pick<Cluster, 'instances' | 'reportBrokerInfo' | 'recordEvent'>
  readonly node: NodeName
  /** Who still has a slot although its Instance may not say so. */
  readonly ledger: Pick<AllocationLedger, 'ofSlot' | 'onChange'>
  readonly clock: Clock
  readonly log: Logger
  /** Where the directories of workloads are made: the same path for whoever mounts them into containers. */
  readonly directory: string
}

/** Who writes begins with an empty file: how long after the first sign of a change is it read, in milliseconds. */
const SETTLE_MS = 50
/** The least time from one write of an Instance's entries to the next, in milliseconds; and from one reading to the next. */
const WRITE_MS = 900
const READ_MS = 450
/** How often everything is read in case that a change was missed, in milliseconds; and where changes are not told. */
const RESCAN_MS = 30_000
const POLL_MS = 2000
/** How long entries of a slot that is free are left to the node that had it; the next one waits as long again, in milliseconds. */
const ORPHAN_MS = 5000

/** What is known of one Instance. */
interface Followed {
  readonly workloads: Map<SlotName, FollowedWorkload>
  /** Slots that were freed and had a directory here. */
  readonly abandoned: Set<SlotName>
  /** Slots of entries that nobody holds, and since when that is known. */
  readonly orphans: Map<SlotName, number>
  /** The earliest time of the next round. */
  notBefore: number
  leftOut: boolean
  /** Rounds of one Instance: one after the other. */
  round: Promise<unknown>
}

/**
 * What workloads write into their directories becomes `status.brokerInfo` of their Instances. A workload is known by the
 * slot that it holds: its directory begins with the claim, and ends when the slot is freed, whoever frees it, and no container has
 * it any more.
 */
export class BrokerInfo {
  readonly #options: BrokerInfoOptions
  readonly #directories: WorkloadDirectories
  readonly #instances = new Map<ObjectKey, Followed>()
  readonly #queue: ReconcileQueue<ObjectKey>
  readonly #budget: TokenBucket
  readonly #stop = new AbortController()
  #running: Promise<unknown> = Promise.resolve()

  constructor(options: BrokerInfoOptions) {
    this.#options = options
    const { clock, log, directory } = options
    this.#directories = new WorkloadDirectories(directory, log)
    this.#budget = writeBudget(clock)
    // One for each directory that has just changed.
    setMaxListeners(0, this.#stop.signal)
    this.#queue = new ReconcileQueue<ObjectKey>({
      clock,
      reconcile: async (key) => {
        const requeueAfterMs = await this.#exclusively(key, () => this.#round(key))
        return requeueAfterMs === undefined ? {} : { requeueAfterMs }
      },
      onError: (instance, error, retryInMs) =>
        log.warn({ instance, err: error, retryInMs }, 'what workloads report cannot be passed on'),
    })
  }

  /** Goes on with what an agent before us has left. To be called when it is known which Instances there are and who has what. */
  async start(): Promise<void> {
    const { cluster, log, directory, ledger } = this.#options
    const left = await this.#directories.open().catch((error: unknown) => {
      // Devices are more important.
      log.error(
        { directory, err: error },
        'workloads cannot report: their directories cannot be made',
      )
      return []
    })
    void this.#directories.removeAside()
    for (const { instance, slot, path } of left) this.#follow(instance, slot, path, false)
    cluster.instances.onChange((key) => this.#changed(key), this.#stop.signal)
    ledger.onChange((slot) => {
      for (const [key, { workloads }] of this.#instances)
        if (workloads.has(slot)) this.#queue.add(key)
    }, this.#stop.signal)
    for (const instance of cluster.instances.list()) this.#changed(keyOf(instance))
    for (const key of this.#instances.keys()) this.#queue.add(key)
    this.#running = Promise.all([this.#queue.run(this.#stop.signal), this.#rescan()])
  }

  /**
   * Makes a new directory for whoever is given the slot now. @returns undefined where that is not possible: a container is
   * better off without it than not started
   */
  async open(instance: ObjectKey, slot: SlotName): Promise<string | undefined> {
    try {
      const path = await this.#directories.renew(instance, slot)
      this.#follow(instance, slot, path, true)
      // Not now, while the kubelet waits: nothing is in there yet.
      this.#addSoon(instance)
      return path
    } catch (error) {
      this.#unfollow(instance, slot)
      this.#options.log.warn({ slot, err: error }, 'a workload gets no directory to report by')
      return undefined
    }
  }

  prepare(instance: ObjectKey, slot: SlotName): void {
    void this.#directories.prepare(instance, slot)
  }

  discard(instance: ObjectKey, slot: SlotName): void {
    void this.#directories.discard(instance, slot)
  }

  /** Passes on at once what the workload has written: its slot is about to be freed. Never rejects. */
  async flush(key: ObjectKey, slot: SlotName): Promise<void> {
    const workload = this.#instances.get(key)?.workloads.get(slot)
    if (workload === undefined) return
    workload.expire()
    await this.#exclusively(key, () => this.#round(key, { atOnce: true })).catch(
      (error: unknown) => {
        this.#options.log.warn(
          { slot, err: error },
          'what a workload wrote last cannot be passed on',
        )
      },
    )
  }

  async close(): Promise<void> {
    this.#stop.abort()
    await this.#running
    await Promise.all([...this.#instances.values()].map(({ round }) => round))
    for (const { workloads } of this.#instances.values())
      for (const workload of workloads.values()) workload.close()
    await this.#directories.close()
  }

  #follow(key: ObjectKey, slot: SlotName, path: string, isNew: boolean): void {
    const followed = this.#followed(key)
    followed.workloads.get(slot)?.close()
    followed.workloads.set(slot, new FollowedWorkload(path, isNew, () => this.#addSoon(key)))
    followed.abandoned.delete(slot)
  }

  #unfollow(key: ObjectKey, slot: SlotName): void {
    const workloads = this.#instances.get(key)?.workloads
    workloads?.get(slot)?.close()
    workloads?.delete(slot)
    this.#queue.add(key)
  }

  #followed(key: ObjectKey): Followed {
    const known = this.#instances.get(key)
    if (known !== undefined) return known
    const followed: Followed = {
      workloads: new Map(),
      abandoned: new Set(),
      orphans: new Map(),
      notBefore: Number.NEGATIVE_INFINITY,
      leftOut: false,
      round: Promise.resolve(),
    }
    this.#instances.set(key, followed)
    return followed
  }

  #changed(key: ObjectKey): void {
    const entries = this.#options.cluster.instances.get(key)?.status?.brokerInfoSlots ?? {}
    // Most Instances have nothing to do with it.
    if (this.#instances.has(key) || Object.keys(entries).length > 0) this.#queue.add(key)
  }

  #addSoon(key: ObjectKey): void {
    this.#options.clock.sleep(SETTLE_MS, this.#stop.signal).then(
      () => this.#queue.add(key),
      () => {
        // The end of the program.
      },
    )
  }

  async #rescan(): Promise<void> {
    const { clock } = this.#options
    while (!this.#stop.signal.aborted) {
      await clock.sleep(RESCAN_MS, this.#stop.signal).catch(() => undefined)
      void this.#directories.removeAside({ again: true })
      for (const [key, { workloads }] of this.#instances) {
        for (const workload of workloads.values()) workload.expire()
        this.#queue.add(key)
      }
    }
  }

  /** @returns when to come again, in milliseconds */
  async #round(key: ObjectKey, { atOnce = false } = {}): Promise<number | undefined> {
    const { cluster, node, clock } = this.#options
    const followed = this.#followed(key)
    const waitMs = followed.notBefore - clock.monotonicMs()
    if (waitMs > 0 && !atOnce) return waitMs
    await this.#dropFreed(key, followed)
    await this.#read(key, followed)
    void this.#directories.removeAside()
    const instance = cluster.instances.get(key)
    if (instance === undefined) {
      if (followed.workloads.size === 0) this.#instances.delete(key)
      return undefined
    }
    const orphansInMs = this.#followOrphans(instance, followed)
    const reports = { workloads: new Map(followed.workloads), abandoned: followed.abandoned }
    const plan = planBrokerInfo(instance, node, reports)
    this.#sayLeftOut(key, followed, plan.leftOut)
    if (!isEmpty(plan)) {
      const budgetInMs = this.#budget.take()
      if (budgetInMs > 0 && !atOnce) return budgetInMs
      followed.notBefore = clock.monotonicMs() + WRITE_MS
      await cluster.reportBrokerInfo(key, node, reports)
    }
    for (const { fresh } of reports.workloads.values()) fresh.clear()
    const deaf = [...followed.workloads.values()].some(({ listening }) => !listening)
    if (
      followed.workloads.size === 0 &&
      followed.abandoned.size === 0 &&
      followed.orphans.size === 0
    )
      this.#instances.delete(key)
    return least(orphansInMs, deaf ? this.#poll(followed) : undefined)
  }

  /** The directories of workloads whose slots this node does not hold any more, and no container has. */
  async #dropFreed(key: ObjectKey, { workloads, abandoned }: Followed): Promise<void> {
    const { cluster, ledger } = this.#options
    const isFree = (slot: SlotName) =>
      !this.#holds(cluster.instances.get(key), slot) && ledger.ofSlot(slot).length === 0
    for (const [slot, workload] of [...workloads]) {
      if (!isFree(slot) || !(await this.#directories.drop(workload, () => isFree(slot)))) continue
      abandoned.add(slot)
      workload.close()
      // Another one may have been given the slot meanwhile.
      if (workloads.get(slot) === workload) workloads.delete(slot)
    }
  }

  async #read(key: ObjectKey, followed: Followed): Promise<void> {
    const { clock, cluster, log } = this.#options
    for (const [slot, workload] of [...followed.workloads]) {
      if (!workload.due) continue
      followed.notBefore = clock.monotonicMs() + READ_MS
      for (const { message } of await workload.read()) {
        const said = `the workload of slot ${slot}: ${message}`
        cluster.recordEvent({
          regarding: { kind: 'Instance', key },
          type: 'Warning',
          reason: 'BrokerInfoRefused',
          message: said,
        })
        log.warn({ slot, reason: message }, 'what a workload has written is left out')
      }
    }
  }

  /**
   * Entries whose slot is free and had no directory here: of a node that is gone, or that is about to take them away itself.
   * @returns when the next of them is due, in milliseconds
   */
  #followOrphans(
    { spec, status }: Instance,
    { workloads, abandoned, orphans }: Followed,
  ): number | undefined {
    const { clock, node } = this.#options
    const named = new Set(Object.values(status?.brokerInfoSlots ?? {}) as SlotName[])
    const free = new Set(
      [...named].filter(
        (slot) => (own(spec.deviceUsage, slot) ?? '') === '' && !workloads.has(slot),
      ),
    )
    for (const slot of [...abandoned]) if (!free.has(slot)) abandoned.delete(slot)
    for (const slot of [...orphans.keys()]) if (!free.has(slot)) orphans.delete(slot)
    const index = spec.nodes.indexOf(node)
    if (index < 0) return undefined
    const graceMs = ORPHAN_MS * (1 + index)
    let next: number | undefined
    for (const slot of free) {
      if (abandoned.has(slot)) continue
      const since = orphans.get(slot) ?? clock.monotonicMs()
      orphans.set(slot, since)
      const restMs = since + graceMs - clock.monotonicMs()
      if (restMs <= 0) abandoned.add(slot)
      else next = least(next, restMs)
    }
    return next
  }

  #sayLeftOut(key: ObjectKey, followed: Followed, leftOut: BrokerInfoPlan['leftOut']): void {
    const [first] = leftOut
    if (first !== undefined && !followed.leftOut) {
      const message = `the workload of slot ${first.slot}: there is no room for ${JSON.stringify(first.name)}, others have reported too much`
      this.#options.cluster.recordEvent({
        regarding: { kind: 'Instance', key },
        type: 'Warning',
        reason: 'BrokerInfoRefused',
        message,
      })
    }
    followed.leftOut = first !== undefined
  }

  #poll({ workloads }: Followed): number {
    for (const workload of workloads.values()) if (!workload.listening) workload.expire()
    return POLL_MS
  }

  #holds(instance: Instance | undefined, slot: SlotName): boolean {
    return (
      instance !== undefined &&
      holderOf(own(instance.spec.deviceUsage, slot)) === this.#options.node
    )
  }

  #exclusively<T>(key: ObjectKey, work: () => Promise<T>): Promise<T> {
    const followed = this.#followed(key)
    const result = followed.round.then(work)
    followed.round = result.catch(() => undefined)
    return result
  }
}

function least(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? (a ?? b) : Math.min(a, b)
}
