import { createHash } from 'node:crypto'
import type { Instance, UpdateStrategy } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube'
import { isDeleted, type Pod } from '../kubernetes-objects.js'
import { specHashOf } from '../labels.js'
import {
  type BrokerHistory,
  historyOf,
  type Legacy,
  predecessorOf,
  type Replaced,
  replacedBy,
  withLegacy,
  withRoom,
} from './broker-history.js'
import {
  earliest,
  isEnded,
  isRefused,
  restart,
  restartsOf,
  STABLE_MS,
  steadyAt,
  works,
} from './broker-state.js'

// Which broker Pods an Instance should have, and the steps towards them. A pure function: another
// replica, or the same one after a restart, makes the same plan, except that it measures times
// from its own first sight. All times are by `monotonicMs`.

export interface PodPlanInput {
  readonly instance: Instance
  /** The hash of the specified Pod; undefined if no Pod is specified. */
  readonly specHash: string | undefined
  readonly strategy: UpdateStrategy
  /** The Pods that the Instance owns. */
  readonly pods: readonly Pod[]
  /** Whether a new broker could run on the node. */
  isUsable(node: NodeName): boolean
  /** Whether the node is not ready, so that none of its brokers works. */
  isAway(node: NodeName): boolean
  /** The last Pod that this replica saw on the node. */
  lastOn(node: NodeName): LastPod | undefined
  /** Until when the first broker waits for more nodes to choose from. */
  readonly choiceAt: number
  readonly now: number
}

export interface LastPod {
  readonly uid: string
  /** For how long this replica has known it, in milliseconds. */
  readonly ageMs: number
}

export interface PodPlan {
  /** What the Instance records before anything else is done. */
  readonly history: BrokerHistory
  readonly remove: readonly Removal[]
  /**
   * The working Pod of an earlier spec that is to be replaced next, when the roll-out of the
   * Configuration permits that.
   */
  readonly update: Pod | undefined
  /** Whether Pods of an earlier spec wait for another broker of the Instance. */
  readonly waits: boolean
  /** How many brokers there should be. */
  readonly desired: number
  /** How many of these a roll-out waits for. */
  readonly missing: number
  readonly create: readonly { readonly node: NodeName; readonly restarts: number }[]
  /** Pods of versions without spec hashes: they count as made from the present spec. */
  readonly adopt: readonly Pod[]
  /** When time alone changes the plan. */
  readonly recheckAt: number | undefined
}

interface Removal {
  readonly pod: Pod
  readonly reason: string
  readonly restarts: number
  /** What the Pod leaves to its successor. */
  readonly replaced: Replaced | undefined
}

/**
 * How long a Pod may be pending, and none of its containers run, before it is tried on another
 * node, in milliseconds.
 */
const PENDING_MS = 5 * 60_000

/** The order in which nodes keep their brokers if there are more nodes than the capacity. */
const RANKS = ['running', 'restarting', 'pending', 'free', 'tried', 'stuck', 'unusable'] as const
type Rank = (typeof RANKS)[number]

/** A node that sees the device, with its broker Pod. */
interface Place {
  readonly node: NodeName
  readonly pod: Pod | undefined
  readonly rank: Rank
}

/** The input of an Instance with brokers, and what earlier brokers have left. */
interface PlanContext extends PodPlanInput {
  readonly specHash: string
  readonly history: BrokerHistory
}

export function planPods(options: PodPlanInput): PodPlan {
  const { instance, specHash, pods, now } = options
  const history = historyOf(instance)
  if (specHash === undefined || isDeleted(instance))
    return {
      history,
      remove: pods.flatMap((pod) => removal(pod, history, 'no broker Pod is specified')),
      update: undefined,
      waits: false,
      desired: 0,
      missing: 0,
      create: [],
      adopt: [],
      recheckAt: undefined,
    }
  const input: PlanContext = { ...options, specHash, history }
  const { capacity } = instance.spec
  const { places, misplaced } = placesOf(input)
  const chosen = places.slice(0, Math.max(0, capacity))
  const surplus = places.slice(chosen.length).flatMap(({ pod }) => pod ?? [])

  const choiceAt = pods.length === 0 && input.choiceAt > now ? input.choiceAt : undefined
  // A Pod that is being deleted uses its slot until it has gone.
  const room = Math.max(0, capacity - pods.filter((pod) => !isEnded(pod)).length)
  const vacant = chosen
    .filter(({ pod, node }) => pod === undefined && input.isUsable(node))
    .slice(0, room)
    .map(({ node }) => node)
  const verdicts = chosen.flatMap(({ node, pod, rank }) =>
    pod === undefined ? [] : { node, pod, ...judge(pod, rank, input) },
  )
  const blocked = vacant.length > 0 || verdicts.some(({ blocksUpdates }) => blocksUpdates)
  const isFree = ({ node, pod }: Place) => pod === undefined && input.isUsable(node)
  const hasFreePlace = places.slice(chosen.length).some(isFree)
  // Working brokers of an Instance are updated one at a time, and only while all others work. A
  // broker stays if no node could run its successor.
  const update = blocked
    ? undefined
    : verdicts.find(({ isOld, node }) => isOld && (hasFreePlace || input.isUsable(node)))?.pod

  const remove = [
    ...misplaced,
    ...surplus.flatMap((pod) => removal(pod, history, 'the capacity is used on other nodes')),
    ...verdicts.flatMap(({ removal: found }) => found ?? []),
  ]
  const removed = new Set(remove.map(({ pod }) => pod))
  const due = vacant.map((node) => ({ node, ...startOn(node, input) }))
  const create = due.filter(({ at }) => choiceAt === undefined && at <= now)
  return {
    history: historyAfter(remove, create, input),
    remove,
    update,
    waits: blocked && verdicts.some(({ isOld }) => isOld),
    desired: chosen.filter(
      ({ node, pod }) => (pod !== undefined && !isEnded(pod)) || input.isUsable(node),
    ).length,
    missing: chosen.filter((place) => isMissing(place, input)).length,
    create: create.map(({ node }) => ({ node, restarts: history.left[node]?.restarts ?? 0 })),
    adopt: pods.filter(
      (pod) => !removed.has(pod) && specHashOf(pod) === undefined && !isDeleted(pod),
    ),
    recheckAt: earliest(
      choiceAt,
      ...places.map(({ pod, rank }) => (pod && rank === 'pending' ? stuckAt(pod) : undefined)),
      ...due.map(({ at }) => at).filter((time) => time > now),
      ...chosen.map(({ pod }) => pod && steadyAt(pod)).filter((time = 0) => time > now),
      ...verdicts.map(({ recheckAt }) => recheckAt),
    ),
  }
}

/** The plan with the replacement of the Pod of an earlier spec, which the roll-out permits. */
export function withUpdate(plan: PodPlan): PodPlan {
  const { update: pod } = plan
  if (pod === undefined) return plan
  const replaced = 'working'
  const { uid } = pod.metadata
  return {
    ...plan,
    history: withLegacy(plan.history, pod.targetNode ?? '', { uid, replaced }),
    remove: [...plan.remove, { pod, reason: SPEC_CHANGED, restarts: 0, replaced }],
  }
}

/** The places of an Instance, the best first, and the Pods that have no place. */
function placesOf(input: PlanContext): { places: Place[]; misplaced: Removal[] } {
  const { instance, pods, history } = input
  // A second place for a node would make the Pod of the first place surplus.
  const nodes = [...new Set(instance.spec.nodes)]
  const podOf = new Map<NodeName, Pod>()
  const misplaced: Removal[] = []
  for (const pod of bestFirst(pods)) {
    const node = nodes.find((name) => name === pod.targetNode)
    if (node === undefined)
      misplaced.push(...removal(pod, history, 'its node does not see the device'))
    else if (podOf.has(node))
      misplaced.push(...removal(pod, history, 'its node has another broker'))
    else podOf.set(node, pod)
  }
  const places = nodes
    .map((node) => ({ node, pod: podOf.get(node), rank: rankOf(node, podOf.get(node), input) }))
    .sort((a, b) => RANKS.indexOf(a.rank) - RANKS.indexOf(b.rank) || (a.node < b.node ? -1 : 1))
  return { places: chooseAmong(places, input), misplaced }
}

/**
 * Moves the nodes that are to have a broker to the front, among nodes of the same rank. Weights
 * cost time, and an Instance can have 1,000 nodes: mostly there is nothing to choose.
 */
function chooseAmong(places: Place[], { instance, history: { full } }: PlanContext): Place[] {
  const { capacity } = instance.spec
  const rank = places[capacity]?.rank
  if (rank === undefined || places[capacity - 1]?.rank !== rank) return places
  const tied = places
    .filter((place) => place.rank === rank)
    .map((place) => ({ place, weight: weight(instance, place.node) }))
    .sort(
      (a, b) =>
        // All nodes take their turn.
        full.indexOf(a.place.node) - full.indexOf(b.place.node) || b.weight - a.weight,
    )
    .map(({ place }) => place)
  const start = places.findIndex((place) => place.rank === rank)
  return [...places.slice(0, start), ...tied, ...places.slice(start + tied.length)]
}

function rankOf(
  node: NodeName,
  pod: Pod | undefined,
  { history: { left, full }, isUsable, now }: PlanContext,
): Rank {
  const leaves = pod !== undefined && (isEnded(pod) || isDeleted(pod))
  // A scheduled Pod keeps its place, however long it takes to start.
  if (pod !== undefined && isPlaced(pod) && !leaves) return 'running'
  if (!isUsable(node)) return 'unusable'
  if (leaves) return 'restarting'
  if (pod !== undefined) return stuckAt(pod) > now ? 'pending' : 'stuck'
  if (full.includes(node)) return 'tried'
  return (left[node]?.restarts ?? 0) > 0 ? 'restarting' : 'free'
}

function isPlaced({ phase, node }: Pod): boolean {
  return phase !== 'Pending' || node !== ''
}

/** What happens to the Pod of a chosen place. By default it stays. */
interface Verdict {
  readonly removal?: Removal
  /** Whether the Pod works, and is of an earlier spec. */
  readonly isOld?: boolean
  /** Whether no other broker may be updated now. */
  readonly blocksUpdates: boolean
  readonly recheckAt?: number
}

const SPEC_CHANGED = 'the spec has changed'

/** Whether the broker of a chosen place is missing in a roll-out. */
function isMissing({ node, pod }: Place, input: PlanContext): boolean {
  // Such a place misses its broker because of the node.
  if (input.isAway(node)) return false
  if (pod === undefined) return input.isUsable(node) && replacedOn(node, input) !== 'broken'
  if (isDeleted(pod)) return replacedOn(node, input) !== 'broken'
  const replaced = replacedBy(input.history, pod)
  const counts = isOutdated(pod, input) ? replaced === 'working' : replaced !== 'broken'
  return counts && !works(pod, input.now)
}

/** Whether the Pod is made from another spec, and the controller is to replace it. */
function isOutdated(pod: Pod, { specHash, strategy }: PlanContext): boolean {
  return strategy === 'RollingUpdate' && ![undefined, specHash].includes(specHashOf(pod))
}

/** What the successor on a node gets. */
function replacedOn(node: NodeName, { history, pods }: PlanContext): Replaced | undefined {
  return history.left[predecessorOf(history, node, pods) ?? '']?.replaced
}

interface Start extends Pick<Legacy, 'uid' | 'vanished'> {
  /** By `monotonicMs`. */
  readonly at: number
}

/**
 * When the broker of a node may be created. The controller waits before it deletes a broker that
 * has ended; a broker that another client deletes must not be created again in a hot loop.
 */
function startOn(node: NodeName, { history: { left }, instance, lastOn, now }: PlanContext): Start {
  const { uid, vanished } = left[node] ?? {}
  const last = lastOn(node)
  if (last === undefined || last.uid === uid) return { at: 0, uid, vanished }
  if (last.ageMs >= STABLE_MS) return { at: 0, uid, vanished: undefined }
  const { metadata } = instance
  const life = { restarts: vanished ?? 0, refused: false, ranMs: last.ageMs }
  const next = restart(life, `${metadata.namespace}/${metadata.name} ${node}`)
  return { at: now - last.ageMs + next.waitMs, uid: last.uid, vanished: next.restarts }
}

/** What the brokers that are deleted leave, and what the brokers that are created take. */
function historyAfter(
  remove: readonly Removal[],
  create: readonly (Start & { readonly node: NodeName })[],
  input: PlanContext,
): BrokerHistory {
  const { pods, now } = input
  let { history } = input
  for (const pod of pods) {
    const { targetNode = '' } = pod
    const { uid, replaced, vanished } = history.left[targetNode] ?? {}
    // What a broker leaves counts until the next one works with the present spec.
    if (uid === pod.metadata.uid || isDeleted(pod) || !works(pod, now)) continue
    const isSettled = replaced === 'working' && !isOutdated(pod, input)
    history = withLegacy(history, targetNode, {
      uid,
      vanished,
      replaced: isSettled ? undefined : replaced,
    })
  }
  for (const { pod, restarts, replaced } of remove) {
    const { targetNode, metadata } = pod
    if (targetNode === undefined) continue
    history = withLegacy(history, targetNode, { uid: metadata.uid, restarts, replaced })
    if (!isPlaced(pod) && !isEnded(pod) && stuckAt(pod) <= now)
      history = withRoom(history, targetNode, 'full')
  }
  for (const { node, uid, vanished } of create) {
    const own = history.left[node]
    const from = predecessorOf(history, node, pods) ?? node
    if (from !== node || vanished !== own?.vanished) {
      const { replaced } = history.left[from] ?? {}
      if (from !== node) history = withLegacy(history, from, {})
      history = withLegacy(history, node, { ...own, uid, replaced, vanished })
    }
    history = withRoom(history, node, 'free')
  }
  return history
}

function judge(pod: Pod, rank: Rank, input: PlanContext): Verdict {
  const { now } = input
  const before = replacedBy(input.history, pod)
  const remove = (
    blocksUpdates: boolean,
    reason: string,
    restarts = 0,
    replaced = before,
  ): Verdict => ({ blocksUpdates, removal: { pod, reason, restarts, replaced } })
  if (isDeleted(pod)) return { blocksUpdates: true }
  const outdated = isOutdated(pod, input)
  if (isEnded(pod)) {
    if (outdated) return remove(true, SPEC_CHANGED, 0, before ?? 'broken')
    const life = { restarts: restartsOf(pod), refused: isRefused(pod), ranMs: pod.ranMs }
    const next = restart(life, pod.metadata.uid)
    const restartAt = (pod.endedAt ?? now) + next.waitMs
    return restartAt > now
      ? { blocksUpdates: true, recheckAt: restartAt }
      : remove(true, `it has ended: ${pod.reason || pod.phase}`, next.restarts)
  }
  if (outdated)
    return (before === 'working' ? works(pod, now) : pod.ready)
      ? { isOld: true, blocksUpdates: false }
      : remove(false, SPEC_CHANGED, 0, before ?? 'broken')
  if (pod.phase !== 'Pending') return { blocksUpdates: before !== 'broken' && !works(pod, now) }
  // A Pod that no node has had room for must not hold up the updates of the others for ever.
  const blocksUpdates = rank !== 'stuck' && before !== 'broken'
  // Init containers may take long, and the kubelet restarts what ends.
  if (pod.startedAt === undefined || pod.hasRun) return { blocksUpdates }
  const expiresAt = pod.startedAt + PENDING_MS
  return expiresAt > now
    ? { blocksUpdates, recheckAt: expiresAt }
    : remove(blocksUpdates, 'it was pending for too long', restartsOf(pod) + 1)
}

function removal(pod: Pod, history: BrokerHistory, reason: string): Removal[] {
  const replaced = replacedBy(history, pod)
  return isDeleted(pod) ? [] : [{ pod, reason, restarts: 0, replaced }]
}

/** The best Pod of a node first: the planner keeps the first and removes the others. */
function bestFirst(pods: readonly Pod[]): Pod[] {
  const penalty = (pod: Pod) =>
    (isDeleted(pod) ? 4 : 0) + (isEnded(pod) ? 2 : 0) + (pod.phase === 'Running' ? 0 : 1)
  return pods.toSorted(
    (a, b) => penalty(a) - penalty(b) || (a.metadata.name < b.metadata.name ? -1 : 1),
  )
}

/** Spreads the brokers of many Instances over the nodes; the same for an Instance each time. */
function weight({ metadata }: Instance, node: NodeName): number {
  return createHash('sha256')
    .update(`${metadata.namespace}/${metadata.name} ${node}`)
    .digest()
    .readUInt32BE()
}

/** When a Pod without a node counts as one that no node has room for. */
function stuckAt({ seenAt }: Pod): number {
  return seenAt + PENDING_MS
}
