import {
  heldSlots,
  type Instance,
  type InstanceName,
  type SlotName,
  type UsedSlot,
} from '@akrijs/api'
import type { NodeName, ObjectKey } from '@akrijs/kube/objects'
import { ReconcileQueue, type ReconcileResult } from '@akrijs/kube/queue'
import { type Clock, type Logger, runAfter, TokenBucket } from '@akrijs/runtime'
import type { Cluster, SlotsInUse } from '../cluster/cluster.js'
import type { Allocations, Kubelet } from '../kubelet/kubelet.js'
import { type AgentObserver, noopObserver } from '../report/observer.js'
import { allocatedSlots, claimedSlots, type UnresolvedId } from './allocated-slots.js'
import { type AllocationLedger, isPodActive } from './allocation-ledger.js'
import { ClaimReporter } from './claim-reporter.js'
import { type LostDevice, LostDevices } from './lost-devices.js'
import { type NodeSlot, planReclaim, slotId, type UnlistedSince } from './reclaim-plan.js'
import { RestoreBackoff } from './restore-backoff.js'
import { type LostClaim, planRestore, type RestorePlan } from './restore-plan.js'
import type { SlotClaims } from './slot-claims.js'

interface SlotReconcilerOptions {
  readonly cluster: Pick<
    Cluster,
    'configurations' | 'instances' | 'restoreSlot' | 'releaseSlot' | 'recordEvent'
  >
  readonly kubelet: Pick<Kubelet, 'listAllocated' | 'pods'>
  readonly node: NodeName
  readonly clock: Clock
  readonly log: Logger
  readonly claims: SlotClaims
  readonly ledger: AllocationLedger
  /**
   * The time without a container after which a slot is released, if Pods are not watched or its Pod
   * is still there, in milliseconds. @default 20000
   */
  readonly graceMs?: number
  /** @default none */
  readonly observer?: AgentObserver
  /**
   * Runs before a slot is released: its workload still owns the slot then. Must not reject.
   * @default nothing
   */
  readonly beforeRelease?: (key: ObjectKey, slot: SlotName) => Promise<void>
  /** Whether the device of an Instance is still gone. @default it is */
  readonly isLost?: (instance: InstanceName) => boolean
  /** Called after each answer of the kubelet. @default nothing */
  readonly slotsUsed?: (slots: SlotsInUse) => void
}

/**
 * Before the next reconcile if there are lost claims and the kubelet did not answer, in
 * milliseconds.
 */
const RETRY_MS = 1000
/**
 * Before the next reconcile if there are lost claims and the Pods of the node are not known yet, in
 * milliseconds.
 */
const UNSYNCED_RETRY_MS = 250
/** The longest time between two reconciles, in milliseconds. */
const INTERVAL_MS = 10_000
/** The same for a node that has no slot, in milliseconds. */
const IDLE_INTERVAL_MS = 60_000
/**
 * The shortest time between two lines of the log about reconciles while no Pod ends, in
 * milliseconds.
 */
const LOG_INTERVAL_MS = 60_000
/**
 * Pods that start or are gone, and start a reconcile at once: a burst, then one in this time. Any
 * user can create and delete Pods of a node without a pause, and each reconcile asks the kubelet.
 */
const POD_CHANGES = { burst: 50, refillMs: 500 }
/** How long the start of the agent waits for the kubelet, in milliseconds. */
const START_LIMIT_MS = 1000

/** An answer of the kubelet, and the claims of the node at that time. */
interface Snapshot {
  readonly askedAt: number
  readonly allocated: Allocations
  readonly claimed: readonly NodeSlot[]
  readonly unresolved: readonly UnresolvedId[]
}

/**
 * Keeps the claims of this node in step with its containers: {@link planReclaim} decides which
 * slots are released, and {@link planRestore} which lost claims are written again. A claim is lost
 * when an Instance is deleted and recreated, or when another program frees the slot. Until the
 * claim is restored, another node could claim the slot too. Each node restores the claims of its
 * own containers only, because other nodes do not know when these end.
 */
export class SlotReconciler {
  readonly #options: Required<SlotReconcilerOptions>
  readonly #queue: ReconcileQueue<NodeName>
  readonly #reporter: ClaimReporter
  readonly #lostDevices: LostDevices
  readonly #backoff: RestoreBackoff
  #unlistedSince: UnlistedSince = new Map()
  /** Monotonic time at which the last Pod ended or was deleted. */
  #podGoneAt = Number.NEGATIVE_INFINITY
  /** Whether the node had no slot at the last reconcile. */
  #isIdle = false
  /** Monotonic time of the last reconcile that was logged at level info. */
  #loggedAt = Number.NEGATIVE_INFINITY
  /** Whether a Pod has ended or was deleted since then. */
  #podGoneSinceLog = false

  constructor(options: SlotReconcilerOptions) {
    this.#options = {
      graceMs: 20_000,
      observer: noopObserver,
      beforeRelease: async () => {},
      isLost: () => true,
      slotsUsed: () => {},
      ...options,
    }
    const { clock, log } = options
    this.#reporter = new ClaimReporter(this.#options)
    this.#lostDevices = new LostDevices(this.#options)
    this.#backoff = new RestoreBackoff(clock)
    this.#queue = new ReconcileQueue<NodeName>({
      clock,
      reconcile: (node, signal) =>
        this.#options.observer.reconciling('Claims', () => this.reconcile(node, signal)),
      onError: (_node, err, retryInMs) => log.warn({ err, retryInMs }, 'slot reconcile failed'),
    })
  }

  /**
   * Asks the kubelet once before the agent offers slots: a slot of a running container must not be
   * offered, even if no Instance records its claim. Resolves within a second, because the kubelet
   * may start later than the agent.
   */
  async begin(signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#options
    const limit = new AbortController()
    const either = AbortSignal.any([signal, limit.signal])
    const asking = this.#snapshot(either).catch((err: unknown) => {
      if (!signal.aborted) log.warn({ err }, 'slots of running containers not known yet')
    })
    const waiting = clock.sleep(START_LIMIT_MS, either).catch(() => undefined)
    await Promise.race([asking, waiting])
    limit.abort()
    await Promise.all([asking, waiting])
  }

  /** How many reconciles wait for their turn: one at most. */
  get queued(): number {
    return this.#queue.depth
  }

  run(signal: AbortSignal): Promise<void> {
    const { cluster, kubelet, node, clock } = this.#options
    const changes = new TokenBucket({ clock, ...POD_CHANGES })
    // The answer after a start tells which Pod has the slots: once it has ended, another Pod whose
    // init containers still run does not keep them.
    kubelet.pods?.onChange((change) => {
      if (change === 'gone') {
        this.#podGoneAt = clock.monotonicMs()
        this.#podGoneSinceLog = true
      }
      this.#queue.add(node, changes.take())
    }, signal)
    cluster.instances.onChange((key) => {
      const instance = cluster.instances.get(key)
      if (instance === undefined) return
      if (this.#isIdle && claimedSlots([instance], node).length > 0) {
        this.#isIdle = false
        // Not at once: the Pod of a young claim may not be seen yet.
        runAfter(clock, INTERVAL_MS, signal, () => this.#queue.add(node))
      }
      if (this.#planRestore(instance).restore.length > 0) this.#queue.add(node)
    }, signal)
    this.#queue.add(node)
    return this.#queue.run(signal)
  }

  /** The device of an Instance is gone: Events tell its Pods. */
  deviceLost(device: LostDevice): void {
    if (this.#lostDevices.add(device)) this.#queue.add(this.#options.node)
  }

  /** Releases and restores slots. If the kubelet does not answer, nothing changes. */
  async reconcile(node: NodeName, signal: AbortSignal): Promise<ReconcileResult> {
    const { cluster, kubelet, clock, ledger, log, slotsUsed } = this.#options
    const begunAt = clock.monotonicMs()
    const isDue =
      begunAt - this.#loggedAt >= (this.#podGoneSinceLog ? INTERVAL_MS : LOG_INTERVAL_MS)
    if (isDue) {
      this.#loggedAt = begunAt
      this.#podGoneSinceLog = false
    }
    // The tests of the existing system wait for these words.
    log[isDue ? 'info' : 'debug']({}, 'reclaiming unused slots - start')
    const snapshot = await this.#snapshot(signal).catch((err: unknown) => {
      if (!signal.aborted) log.warn({ err }, 'slots of running containers not known')
    })
    const rechecks: number[] = []
    if (snapshot !== undefined) {
      this.#lostDevices.report()
      rechecks.push(await this.#reclaim(snapshot))
      slotsUsed(this.#used(snapshot))
    }
    const plan = this.#planRestore()
    if (snapshot === undefined || kubelet.pods?.synced === false) {
      if (plan.restore.length + plan.conflicts.length > 0)
        rechecks.push(clock.monotonicMs() + (snapshot ? UNSYNCED_RETRY_MS : RETRY_MS))
    } else {
      this.#reporter.report(snapshot.unresolved, plan.conflicts)
      for (const lost of plan.restore) await this.#restore(lost)
    }
    this.#isIdle =
      snapshot !== undefined &&
      ledger.list().length === 0 &&
      claimedSlots(cluster.instances.list(), node).length === 0
    rechecks.push(begunAt + (this.#isIdle ? IDLE_INTERVAL_MS : INTERVAL_MS))
    const recheckAt = Math.min(...rechecks, this.#backoff.nextRetryAt)
    return { requeueAfterMs: Math.max(0, recheckAt - clock.monotonicMs()) }
  }

  /** Asks the kubelet which ids containers hold, and records the slots of these ids. */
  async #snapshot(signal: AbortSignal): Promise<Snapshot> {
    const { cluster, kubelet, node, clock, ledger, claims } = this.#options
    const askedAt = clock.monotonicMs()
    const allocated = await kubelet.listAllocated(signal)
    const claimed = claimedSlots(cluster.instances.list(), node)
    const { resolved, unresolved } = allocatedSlots({
      allocated,
      claimed,
      configurations: cluster.configurations.list(),
      slotOf: (resourceName, id) => ledger.slotOf(resourceName, id),
      isActive: (pod, resourceName) => isPodActive(kubelet.pods, pod, resourceName),
    })
    for (const { allocation, users } of resolved) {
      // The answer does not tell the users of a younger claim.
      const claimedAt = claims.lastClaimed(allocation.slot) ?? Number.NEGATIVE_INFINITY
      if (claimedAt < askedAt) ledger.recordUsers(allocation, users)
    }
    return { askedAt, allocated, claimed, unresolved }
  }

  /** The claimed slots with the Pods of their containers. */
  #used({ claimed }: Snapshot): SlotsInUse {
    const { ledger, kubelet } = this.#options
    const used = new Map<ObjectKey, UsedSlot[]>()
    for (const { claim, ...allocation } of claimed) {
      const { slot } = allocation
      // Of a slot that was released just now, nothing is known any more.
      for (const pod of [...(ledger.usersOf(allocation) ?? [])].sort()) {
        if (claim === undefined) continue
        const ofInstance = used.get(claim.key) ?? []
        const since = kubelet.pods?.startedAt(pod)
        ofInstance.push({ slot, pod, ...(since !== undefined && { since }) })
        used.set(claim.key, ofInstance)
      }
    }
    return used
  }

  /** @returns the monotonic time of the next check */
  async #reclaim({ askedAt, allocated, claimed }: Snapshot): Promise<number> {
    const { kubelet, claims, ledger, graceMs, log } = this.#options
    const slots = new Map<string, NodeSlot>()
    for (const each of ledger.list()) slots.set(slotId(each), { ...each, claim: undefined })
    for (const slot of claimed) slots.set(slotId(slot), slot)
    const { release, unlistedSince, recheckAt } = planReclaim({
      askedAt,
      allocated,
      slots: [...slots.values()],
      pods: kubelet.pods,
      podGoneAt: this.#podGoneAt,
      unlistedSince: this.#unlistedSince,
      graceMs,
      lastClaimed: (slot) => claims.lastClaimed(slot),
      usersOf: (allocation) => ledger.usersOf(allocation),
    })
    this.#unlistedSince = unlistedSince
    for (const slot of release)
      await this.#release(slot, askedAt).catch((err: unknown) => {
        log.warn({ slot: slot.slot, err }, 'slot not released')
      })
    return recheckAt
  }

  async #release(allocation: NodeSlot, askedAt: number): Promise<void> {
    const { cluster, claims, ledger, log, observer, beforeRelease } = this.#options
    const { slot, claim } = allocation
    const outcome = await claims.release(slot, askedAt, async () => {
      // Before the write: the free slot must not look like a lost claim.
      ledger.remove(allocation)
      if (claim === undefined) return undefined
      await beforeRelease(claim.key, slot)
      return cluster.releaseSlot(claim.key, slot, claim.usage)
    })
    if (outcome === undefined || claim === undefined) return
    const { usage } = claim
    if (outcome !== 'released')
      return log.debug({ slot, usage, outcome }, 'slot changed before release')
    observer.reclaimed()
    log.info({ slot, usage }, 'slot reclaimed')
  }

  /** @param instance @default all Instances */
  #planRestore(instance?: Instance): RestorePlan {
    const { cluster, clock, ledger, node } = this.#options
    return planRestore({
      allocations: ledger.inUse(instance?.metadata.name),
      instances: instance === undefined ? cluster.instances.list() : [instance],
      node,
      now: clock.monotonicMs(),
      retryAt: (slot) => this.#backoff.retryAt(slot),
    })
  }

  async #restore(lost: LostClaim): Promise<void> {
    const { cluster, claims, ledger, log, observer } = this.#options
    const { allocation, key, usage } = lost
    const { slot } = allocation
    this.#backoff.recordAttempt(slot)
    try {
      const result = await claims.restore(slot, async () =>
        ledger.has(allocation) ? cluster.restoreSlot(key, slot, usage) : undefined,
      )
      if (result === undefined) return
      if (result.outcome !== 'claimed') return log.debug({ slot, ...result }, 'slot not restored')
    } catch (err) {
      return log.warn({ slot, err }, 'slot not restored')
    }
    observer.restored('restored')
    log.warn({ slot, usage }, 'lost claim of a running container restored')
    const { deviceUsage = {}, capacity = 0 } = cluster.instances.get(key)?.spec ?? {}
    const held = heldSlots(deviceUsage)
    if (held > capacity) this.#reporter.reportOverCapacity(lost, held, capacity)
  }
}
