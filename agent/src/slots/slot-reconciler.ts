import { heldSlots, type SlotName, type UsedSlot } from '@akrijs/api'
import type { NodeName, ObjectKey } from '@akrijs/kube/objects'
import { ReconcileQueue, type ReconcileResult } from '@akrijs/kube/queue'
import { Backoff, type Clock, runAfter, TokenBucket } from '@akrijs/runtime'
import type { Cluster } from '../cluster/cluster.js'
import type { Kubelet } from '../kubelet/kubelet.js'
import type { UnresolvedId } from './allocation-ledger.js'
import {
  claimsOfNode,
  type LostClaim,
  lostClaims,
  type NodeSlot,
  planReclaim,
  type ReclaimInput,
  slotsOfNode,
} from './claim-plan.js'
import type { SlotBook } from './slot-book.js'
import type { SlotClaims } from './slot-claims.js'
import { SlotEvents, type SlotEventsOptions } from './slot-events.js'

interface SlotReconcilerOptions extends SlotEventsOptions {
  readonly cluster: Pick<
    Cluster,
    'configurations' | 'instances' | 'restoreSlot' | 'releaseSlot' | 'recordEvent' | 'reportSlots'
  >
  readonly kubelet: Pick<Kubelet, 'listAllocated' | 'pods'>
  readonly book: SlotBook
  readonly claims: SlotClaims
  readonly clock: Clock
  /**
   * The time without a container after which a slot is released, if Pods are not watched or its Pod
   * is still there, in milliseconds. @default 20000
   */
  readonly slotGraceMs?: number
  /** The reports of brokers. Before a slot is released, its workload still owns the slot. */
  readonly brokerInfo?: { flush(key: ObjectKey, slot: SlotName): Promise<void> } | undefined
}

/**
 * Before the next reconcile if there are lost claims, and the kubelet did not answer or the Pods of
 * the node are not known yet, in milliseconds.
 */
const RETRY_MS = 1000
/** The longest time between two reconciles, in milliseconds. */
const INTERVAL_MS = 10_000
/** The same for a node that has no slot, in milliseconds. */
const IDLE_INTERVAL_MS = 60_000
/** Between two lines of the log about reconciles while no Pod ends, in milliseconds. */
const LOG_INTERVAL_MS = 60_000
/**
 * Pods that start or are gone, and start a reconcile at once: a burst, then one in this time. Any
 * user can create and delete Pods of a node without a pause, and each reconcile asks the kubelet.
 */
const POD_CHANGES = { burst: 50, refillMs: 500 }
/** Lost claims that start a reconcile at once: another program may free them again and again. */
const LOSSES = { burst: 10, refillMs: 60_000 }
const SLOT_GRACE_MS = 20_000
/** How long the start of the agent waits for the kubelet, in milliseconds. */
const START_LIMIT_MS = 1000

/** An answer of the kubelet, and the slots of the node at that time. */
interface Snapshot extends Pick<ReclaimInput, 'askedAt' | 'allocated' | 'slots'> {
  readonly unresolved: readonly UnresolvedId[]
}

/**
 * Keeps the claims of this node in step with its containers: {@link planReclaim} decides which
 * slots are released, and {@link lostClaims} which claims are written again. A claim is lost
 * when an Instance is deleted and recreated, or when another program frees the slot. Until the
 * claim is restored, another node could claim the slot too. Each node restores the claims of its
 * own containers only, because other nodes do not know when these end.
 */
export class SlotReconciler {
  readonly #options: SlotReconcilerOptions
  readonly #queue: ReconcileQueue<NodeName>
  readonly #events: SlotEvents
  /** While the cluster does not answer to a restore. */
  readonly #backoff = new Backoff()
  #unlistedSince: ReclaimInput['unlistedSince'] = new Map()
  /** Monotonic time at which the last Pod ended or was deleted. */
  #podGoneAt = Number.NEGATIVE_INFINITY
  /** Whether a lost claim has started a reconcile that has not seen it. */
  #isLossQueued = false
  /** Whether the node had no slot at the last reconcile. */
  #isIdle = false
  /** Monotonic time of the last reconcile that was logged at level info. */
  #loggedAt = Number.NEGATIVE_INFINITY

  constructor(options: SlotReconcilerOptions) {
    const { clock, log, observer } = options
    this.#options = options
    this.#events = new SlotEvents(options)
    this.#queue = new ReconcileQueue<NodeName>({
      clock,
      reconcile: (_node, signal) => observer.reconciling('Claims', () => this.reconcile(signal)),
      onError: (_node, err, retryInMs) => log.warn({ err, retryInMs }, 'slot reconcile failed'),
    })
  }

  /**
   * Asks the kubelet once before the agent offers slots: a slot of a running container must not be
   * offered, even if no Instance records its claim. Resolves within a second, because the kubelet
   * may start later than the agent.
   */
  async begin(signal: AbortSignal): Promise<void> {
    const limit = new AbortController()
    runAfter(this.#options.clock, START_LIMIT_MS, limit.signal, () => limit.abort())
    await this.#snapshot(signal, AbortSignal.any([signal, limit.signal]))
    limit.abort()
  }

  get queued(): number {
    return this.#queue.depth
  }

  run(signal: AbortSignal): Promise<void> {
    const { cluster, kubelet, node, clock, book } = this.#options
    const changes = new TokenBucket({ clock, ...POD_CHANGES })
    const losses = new TokenBucket({ clock, ...LOSSES })
    // The answer after a start tells which Pod has the slots: once it has ended, another Pod whose
    // init containers still run does not keep them.
    kubelet.pods?.onChange((change) => {
      if (change === 'gone') this.#podGoneAt = clock.monotonicMs()
      this.#queue.add(node, changes.take())
    }, signal)
    cluster.instances.onChange((key) => {
      const instance = cluster.instances.get(key)
      if (instance === undefined) return
      if (this.#isIdle && claimsOfNode([instance], node).length > 0) {
        this.#isIdle = false
        // Not at once: the Pod of a young claim may not be seen yet.
        runAfter(clock, INTERVAL_MS, signal, () => this.#queue.add(node))
      }
      const lost = lostClaims(book.allocations.inUse(instance.metadata.name), [instance], node)
      const isLost = lost.some(({ takenBy }) => takenBy === '')
      // Each restore changes an Instance, which may have further lost claims.
      if (!isLost || this.#isLossQueued || losses.take() > 0) return
      this.#isLossQueued = true
      this.#queue.add(node)
    }, signal)
    book.onLoss((device, isOver) => {
      if (isOver) return
      this.#events.lose(device)
      this.#queue.add(node)
    }, signal)
    this.#queue.add(node)
    return this.#queue.run(signal)
  }

  /** Releases and restores slots. If the kubelet does not answer, nothing changes. */
  async reconcile(signal: AbortSignal): Promise<ReconcileResult> {
    const { cluster, kubelet, clock, book, node } = this.#options
    const begunAt = clock.monotonicMs()
    this.#logStart(begunAt)
    const snapshot = await this.#snapshot(signal)
    const rechecks: number[] = []
    if (snapshot !== undefined) {
      this.#events.reportLost()
      rechecks.push(await this.#reclaim(snapshot))
      cluster.reportSlots(this.#used(snapshot.slots))
    }
    this.#isLossQueued = false
    const lost = lostClaims(book.allocations.inUse(), cluster.instances.list(), node)
    if (snapshot === undefined || kubelet.pods?.synced === false) {
      if (lost.length > 0) rechecks.push(clock.monotonicMs() + RETRY_MS)
    } else {
      this.#events.reportConflicts(snapshot.unresolved, lost)
      let isAnswered = true
      for (const each of lost) isAnswered = (await this.#restore(each)) && isAnswered
      if (isAnswered) this.#backoff.reset()
      else rechecks.push(clock.monotonicMs() + this.#backoff.next())
    }
    this.#isIdle = snapshot?.slots.length === 0
    rechecks.push(begunAt + (this.#isIdle ? IDLE_INTERVAL_MS : INTERVAL_MS))
    return { requeueAfterMs: Math.max(0, Math.min(...rechecks) - clock.monotonicMs()) }
  }

  #logStart(now: number): void {
    const intervalMs = this.#podGoneAt > this.#loggedAt ? INTERVAL_MS : LOG_INTERVAL_MS
    const isDue = now - this.#loggedAt >= intervalMs
    if (isDue) this.#loggedAt = now
    // The tests of the existing system wait for these words.
    this.#options.log[isDue ? 'info' : 'debug']({}, 'reclaiming unused slots - start')
  }

  /**
   * Asks the kubelet which ids containers hold, and records the slots of these ids.
   * @param limit ends the question too
   * @returns undefined if the kubelet does not answer
   */
  async #snapshot(signal: AbortSignal, limit = signal): Promise<Snapshot | undefined> {
    const { cluster, kubelet, node, clock, book, log } = this.#options
    const askedAt = clock.monotonicMs()
    try {
      const allocated = await kubelet.listAllocated(limit)
      const claimed = claimsOfNode(cluster.instances.list(), node)
      const names = cluster.configurations.list().map(({ metadata }) => metadata.name)
      const configurations = new Set<string>(names)
      const unresolved = book.allocations.follow(allocated, { askedAt, claimed, configurations })
      const slots = slotsOfNode(claimed, book.allocations.list())
      return { askedAt, allocated, slots, unresolved }
    } catch (err) {
      if (!signal.aborted) log.warn({ err }, 'slots of running containers not known')
      return undefined
    }
  }

  /** The claimed slots with the Pods of their containers. */
  #used(slots: readonly NodeSlot[]): Map<ObjectKey, UsedSlot[]> {
    const { book, kubelet } = this.#options
    const used = new Map<ObjectKey, UsedSlot[]>()
    for (const each of slots) {
      const { slot, key, users = [] } = each
      // Not a slot that was released just now.
      if (key === undefined || !book.allocations.has(each)) continue
      for (const pod of [...users].sort()) {
        const since = kubelet.pods?.startedAt(pod)
        const usedSlot = { slot, pod, ...(since !== undefined && { since }) }
        used.set(key, [...(used.get(key) ?? []), usedSlot])
      }
    }
    return used
  }

  /** @returns the monotonic time of the next check */
  async #reclaim(snapshot: Snapshot): Promise<number> {
    const { kubelet, slotGraceMs = SLOT_GRACE_MS, log } = this.#options
    const { release, unlistedSince, recheckAt } = planReclaim({
      ...snapshot,
      pods: kubelet.pods,
      podGoneAt: this.#podGoneAt,
      unlistedSince: this.#unlistedSince,
      graceMs: slotGraceMs,
    })
    this.#unlistedSince = unlistedSince
    for (const slot of release)
      await this.#release(slot, snapshot.askedAt).catch((err: unknown) => {
        log.warn({ slot: slot.slot, err }, 'slot not released')
      })
    return recheckAt
  }

  async #release(allocation: NodeSlot, askedAt: number): Promise<void> {
    const { cluster, claims, book, log, observer, brokerInfo } = this.#options
    const { slot, key, usage } = allocation
    if (key !== undefined) await brokerInfo?.flush(key, slot)
    const outcome = await claims.exclusively(async () => {
      // A container that got the slot after the question is not in the answer.
      const isYoung = book.allocations.ofSlot(slot).some(({ claimedAt }) => claimedAt >= askedAt)
      if (isYoung) return undefined
      // Before the write: the free slot must not look like a lost claim.
      book.allocations.remove(allocation)
      return key && usage ? cluster.releaseSlot(key, slot, usage) : undefined
    })
    if (outcome === undefined) return
    if (outcome !== 'released')
      return log.debug({ slot, usage, outcome }, 'slot changed before release')
    observer.reclaimed()
    log.info({ slot, usage }, 'slot reclaimed')
  }

  /** @returns whether the cluster has answered */
  async #restore(lost: LostClaim): Promise<boolean> {
    const { cluster, claims, book, log, observer } = this.#options
    const { slot, key, usage, takenBy } = lost
    if (takenBy !== '') return true
    try {
      const result = await claims.exclusively(async () =>
        book.allocations.has(lost) ? cluster.restoreSlot(key, slot, usage) : undefined,
      )
      if (result?.outcome !== 'claimed') {
        if (result !== undefined) log.debug({ slot, ...result }, 'slot not restored')
        return true
      }
    } catch (err) {
      log.warn({ slot, err }, 'slot not restored')
      return false
    }
    observer.restored('restored')
    log.warn({ slot, usage }, 'lost claim of a running container restored')
    const { deviceUsage = {}, capacity = 0 } = cluster.instances.get(key)?.spec ?? {}
    const held = heldSlots(deviceUsage)
    if (held > capacity) this.#events.reportOverCapacity(lost, held, capacity)
    return true
  }
}
