import { holderOf, type PodToEnd, type SlotName } from '@akrijs/api'
import type { NodeName, ObjectKey } from '@akrijs/kube/objects'
import type { ReconcileResult } from '@akrijs/kube/queue'
import { type Clock, type Logger, TokenBucket } from '@akrijs/runtime'
import type { Cluster } from '../cluster/cluster.js'
import type { NodePods } from '../kubelet/kubelet.js'
import type { AllocationLedger } from '../slots/allocation-ledger.js'
import { type BrokerInfoPlan, entryOf, isEmpty, planBrokerInfo } from './broker-info-plan.js'
import { FollowedWorkload } from './followed-workload.js'
import { NO_ORPHANS, type Orphans, planOrphans } from './orphan-plan.js'
import type { WorkloadDirectories } from './workload-directories.js'

export interface BrokerInfoReconcilerOptions {
  readonly cluster: Pick<
    Cluster,
    'instances' | 'reportBrokerInfo' | 'recordEvent' | 'reportPodsToEnd'
  >
  readonly node: NodeName
  /** The slots of running containers, also when their Instance has lost the claim. */
  readonly ledger: Pick<AllocationLedger, 'ofSlot' | 'usersOf'>
  /** The Pods of this node; undefined if Pods are not watched. */
  readonly kubelet: { readonly pods: Pick<NodePods, 'uidOf'> | undefined }
  readonly directories: WorkloadDirectories
  readonly clock: Clock
  readonly log: Logger
  /** Called when a workload may have changed a file. */
  onChange(instance: ObjectKey): void
}

/**
 * The least time from one write of an Instance to the next, and from one reading to the next, in
 * milliseconds.
 */
const WRITE_MS = 900
const READ_MS = 450
/** How often a directory is read that cannot be watched, in milliseconds. */
const POLL_MS = 2000

/**
 * Bounds what all workloads of a node together make the agent write, however often they change
 * their files.
 */
export const WRITE_BUDGET = { burst: 100, refillMs: 100 }

interface FollowedInstance {
  readonly workloads: Map<SlotName, FollowedWorkload>
  orphans: Orphans
  /** The earliest time of the next reconcile. */
  notBefore: number
  isFull: boolean
  /** Reconciles of one Instance run in order. */
  last: Promise<unknown>
}

/** Makes `status.brokerInfo` of Instances follow the files of the workloads of this node. */
export class BrokerInfoReconciler {
  readonly #options: BrokerInfoReconcilerOptions
  readonly #instances = new Map<ObjectKey, FollowedInstance>()
  readonly #budget: TokenBucket
  /**
   * The slots of workloads beyond their bound, with the uids of their Pods. Another Pod can have
   * the name of such a Pod before the slot is free.
   */
  readonly #overBound = new Map<SlotName, Map<ObjectKey, string>>()

  constructor(options: BrokerInfoReconcilerOptions) {
    this.#options = options
    this.#budget = new TokenBucket({ clock: options.clock, ...WRITE_BUDGET })
  }

  get keys(): readonly ObjectKey[] {
    return [...this.#instances.keys()]
  }

  has(key: ObjectKey, slot: SlotName): boolean {
    return this.#instances.get(key)?.workloads.has(slot) === true
  }

  /** Whether a reconcile of the Instance may have something to do, as it is now. */
  isDue(key: ObjectKey): boolean {
    const instance = this.#options.cluster.instances.get(key)
    // Most Instances have neither an entry nor a workload, and most workloads report nothing.
    if (Object.keys(instance?.status?.brokerInfoSlots ?? {}).length > 0) return true
    const followed = this.#instances.get(key)
    if (followed === undefined) return false
    const { workloads, orphans } = followed
    if (instance === undefined || orphans.abandoned.size + orphans.waiting.size > 0) return true
    return [...workloads].some(
      ([slot, { isDue, files }]) => isDue || files.size > 0 || this.#isFree(key, slot),
    )
  }

  /** @param isNew whether the workload has yet to start */
  follow(key: ObjectKey, slot: SlotName, path: string, isNew: boolean): void {
    const followed = this.#follow(key)
    followed.workloads.get(slot)?.close()
    this.#overBound.delete(slot)
    followed.workloads.set(
      slot,
      new FollowedWorkload(path, isNew, () => this.#options.onChange(key)),
    )
    const abandoned = [...followed.orphans.abandoned].filter((name) => name !== slot)
    followed.orphans = { ...followed.orphans, abandoned: new Set(abandoned) }
  }

  unfollow(key: ObjectKey, slot: SlotName): void {
    this.#overBound.delete(slot)
    const workloads = this.#instances.get(key)?.workloads
    workloads?.get(slot)?.close()
    workloads?.delete(slot)
  }

  /** Makes the next reconcile read all files again, in case that a change was missed. */
  expire(): void {
    for (const { workloads } of this.#instances.values())
      for (const workload of workloads.values()) workload.isDue = true
  }

  reconcile(key: ObjectKey): Promise<ReconcileResult> {
    return this.#inOrder(key, () => this.#reconcile(key))
  }

  /** Reports at once what the workload of a slot has written. */
  async flush(key: ObjectKey, slot: SlotName): Promise<void> {
    const workload = this.#instances.get(key)?.workloads.get(slot)
    if (workload === undefined) return
    workload.isDue = true
    await this.#inOrder(key, () => this.#reconcile(key, { atOnce: true }))
  }

  async close(): Promise<void> {
    for (const { last, workloads } of this.#instances.values()) {
      await last
      for (const workload of workloads.values()) workload.close()
    }
  }

  async #reconcile(key: ObjectKey, { atOnce = false } = {}): Promise<ReconcileResult> {
    const { cluster, node, clock, directories } = this.#options
    const followed = this.#follow(key)
    const { workloads } = followed
    const waitMs = followed.notBefore - clock.monotonicMs()
    if (waitMs > 0 && !atOnce) return { requeueAfterMs: waitMs }
    await this.#dropFreed(key, followed)
    await this.#read(key, followed)
    this.#reportOverBound()
    void directories.removeAside()
    const instance = cluster.instances.get(key)
    if (instance === undefined) {
      if (workloads.size === 0) this.#instances.delete(key)
      return {}
    }
    const { recheckInMs, ...orphans } = planOrphans(instance, followed.orphans, {
      node,
      now: clock.monotonicMs(),
      hasDirectory: (slot) => workloads.has(slot),
    })
    followed.orphans = orphans
    const reports = { workloads: new Map(workloads), abandoned: orphans.abandoned }
    const plan = planBrokerInfo(instance, node, reports)
    this.#reportLeftOut(key, followed, plan)
    if (!isEmpty(plan)) {
      const budgetInMs = this.#budget.take()
      if (budgetInMs > 0 && !atOnce) return { requeueAfterMs: budgetInMs }
      followed.notBefore = clock.monotonicMs() + WRITE_MS
      await cluster.reportBrokerInfo(key, node, reports)
    }
    for (const { fresh } of reports.workloads.values()) fresh.clear()
    if (workloads.size + orphans.abandoned.size + orphans.waiting.size === 0)
      this.#instances.delete(key)
    const unwatched = [...workloads.values()].filter(({ isWatched }) => !isWatched)
    for (const workload of unwatched) workload.isDue = true
    // The kubelet may not have named the Pod of the slot yet.
    const isOverBound = [...workloads.keys()].some((slot) => this.#overBound.has(slot))
    const waits = unwatched.length > 0 || isOverBound ? [POLL_MS] : []
    if (recheckInMs !== undefined) waits.push(recheckInMs)
    return waits.length === 0 ? {} : { requeueAfterMs: Math.min(...waits) }
  }

  /**
   * Drops the directories of workloads whose slot this node does not hold, and no container has.
   */
  async #dropFreed(key: ObjectKey, followed: FollowedInstance): Promise<void> {
    const { directories } = this.#options
    const isFree = (slot: SlotName) => this.#isFree(key, slot)
    const { workloads } = followed
    for (const [slot, workload] of [...workloads]) {
      if (!isFree(slot) || !(await directories.drop(workload, () => isFree(slot)))) continue
      const { orphans } = followed
      followed.orphans = { ...orphans, abandoned: new Set([...orphans.abandoned, slot]) }
      workload.close()
      // Another workload may have the slot by now.
      if (workloads.get(slot) !== workload) continue
      workloads.delete(slot)
      this.#overBound.delete(slot)
    }
  }

  /** Whether this node does not hold the slot, and no container has it. */
  #isFree(key: ObjectKey, slot: SlotName): boolean {
    const { cluster, ledger, node } = this.#options
    const usage = entryOf(cluster.instances.get(key)?.spec.deviceUsage ?? {}, slot)
    return holderOf(usage) !== node && ledger.ofSlot(slot).length === 0
  }

  async #read(key: ObjectKey, followed: FollowedInstance): Promise<void> {
    const { clock, log } = this.#options
    for (const [slot, workload] of [...followed.workloads]) {
      if (!workload.isDue) continue
      followed.notBefore = clock.monotonicMs() + READ_MS
      for (const { message } of await workload.read()) {
        this.#recordRefusal(key, slot, message)
        log.warn({ slot, reason: message }, 'broker info refused')
      }
      // The next workload may have the slot by now: the removal of many files takes time.
      const isLast = followed.workloads.get(slot) === workload
      if (isLast && workload.isOverBound && !this.#overBound.has(slot))
        this.#overBound.set(slot, new Map())
    }
  }

  /** Asks for the end of the Pods whose workloads are beyond their bound. */
  #reportOverBound(): void {
    const { cluster, kubelet, ledger } = this.#options
    const pods = new Map<ObjectKey, PodToEnd>()
    for (const [slot, uids] of this.#overBound)
      for (const allocation of ledger.ofSlot(slot))
        for (const pod of ledger.usersOf(allocation) ?? []) {
          const uid = kubelet.pods?.uidOf(pod)
          if (uid === undefined) continue
          if (!uids.has(pod)) uids.set(pod, uid)
          if (uids.get(pod) === uid) pods.set(pod, { uid, slot })
        }
    cluster.reportPodsToEnd(pods)
  }

  #reportLeftOut(key: ObjectKey, followed: FollowedInstance, { leftOut }: BrokerInfoPlan): void {
    const [first] = leftOut
    if (first !== undefined && !followed.isFull) {
      const name = JSON.stringify(first.name)
      const message = `there is no room for ${name}, others have reported too much`
      this.#recordRefusal(key, first.slot, message)
    }
    followed.isFull = first !== undefined
  }

  #recordRefusal(key: ObjectKey, slot: SlotName, message: string): void {
    this.#options.cluster.recordEvent({
      regarding: { kind: 'Instance', key },
      type: 'Warning',
      reason: 'BrokerInfoRefused',
      message: `the workload of slot ${slot}: ${message}`,
    })
  }

  #follow(key: ObjectKey): FollowedInstance {
    const followed = this.#instances.get(key) ?? {
      workloads: new Map(),
      orphans: NO_ORPHANS,
      notBefore: Number.NEGATIVE_INFINITY,
      isFull: false,
      last: Promise.resolve(),
    }
    this.#instances.set(key, followed)
    return followed
  }

  #inOrder<T>(key: ObjectKey, work: () => Promise<T>): Promise<T> {
    const followed = this.#follow(key)
    const result = followed.last.then(work)
    followed.last = result.catch(() => undefined)
    return result
  }
}
