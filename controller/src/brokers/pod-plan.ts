import { createHash } from 'node:crypto'
import type { Instance, UpdateStrategy } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube'
import { isDeleted, type Pod } from '../kubernetes-objects.js'
import { specHashOf } from '../labels.js'
import { earliest } from '../requeue.js'
import { isEnded, isRefused } from './pod-state.js'
import { restart, restartsOf } from './restart-backoff.js'

// Which broker Pods an Instance should have, and the steps towards them. A pure function: another
// replica, or the same one after a restart, makes the same plan.

export interface PodPlanInput {
  readonly instance: Instance
  /** The hash of the specified Pod; undefined if no Pod is specified. */
  readonly specHash: string | undefined
  readonly strategy: UpdateStrategy
  /** The Pods that the Instance owns. */
  readonly pods: readonly Pod[]
  /** Whether a new broker could run on the node. */
  isUsable(node: NodeName): boolean
  /** How often in a row the broker of a node was restarted; for a broker without a Pod. */
  restartsOn(node: NodeName): number
  /** When the broker of a node may be created again, in milliseconds since the epoch. */
  notBefore(node: NodeName): number
  /** Milliseconds since the epoch. */
  readonly now: number
}

interface PodPlan {
  readonly remove: readonly Removal[]
  readonly create: readonly { readonly node: NodeName; readonly restarts: number }[]
  /** Pods of versions without spec hashes: they count as made from the present spec. */
  readonly adopt: readonly Pod[]
  /** When time alone changes the plan, in milliseconds since the epoch. */
  readonly recheckAt: number | undefined
}

interface Removal {
  readonly pod: Pod
  readonly reason: string
  readonly restarts: number
}

/** How long a Pod may be pending before it is tried on another node, in milliseconds. */
const PENDING_MS = 5 * 60_000

/** The order in which nodes keep their brokers if there are more nodes than the capacity. */
const RANKS = ['running', 'restarting', 'pending', 'free', 'stuck', 'unusable'] as const
type Rank = (typeof RANKS)[number]

/** A node that sees the device, with its broker Pod. */
interface Place {
  readonly node: NodeName
  readonly pod: Pod | undefined
  readonly rank: Rank
}

export function planPods(input: PodPlanInput): PodPlan {
  const { instance, specHash, pods, now } = input
  if (specHash === undefined || isDeleted(instance))
    return {
      remove: pods.flatMap((pod) => removal(pod, 'no broker Pod is specified')),
      create: [],
      adopt: [],
      recheckAt: undefined,
    }
  const { capacity } = instance.spec
  const { places, misplaced } = placesOf(input)
  const chosen = places.slice(0, Math.max(0, capacity))
  const surplus = places.slice(chosen.length).flatMap(({ pod }) => pod ?? [])

  // A Pod that is being deleted uses its slot until it has gone.
  const room = Math.max(0, capacity - pods.filter((pod) => !isEnded(pod)).length)
  const vacant = chosen
    .filter(({ pod, node }) => pod === undefined && input.isUsable(node))
    .slice(0, room)
    .map(({ node }) => node)
  const verdicts = chosen.flatMap(({ pod, rank }) =>
    pod === undefined ? [] : [{ pod, ...judge(pod, rank, specHash, input) }],
  )
  const blocked = vacant.length > 0 || verdicts.some(({ blocksUpdates }) => blocksUpdates)
  // Working brokers are updated one at a time, and only while all others are ready.
  const updated = blocked ? undefined : verdicts.find((verdict) => verdict.do === 'update')?.pod

  const remove = [
    ...misplaced,
    ...surplus.flatMap((pod) => removal(pod, 'the capacity is used on other nodes')),
    ...verdicts.flatMap((verdict) => (verdict.do === 'remove' ? [verdict] : [])),
    ...(updated === undefined ? [] : removal(updated, SPEC_CHANGED)),
  ].map(({ pod, reason, restarts }) => ({ pod, reason, restarts }))
  const removed = new Set(remove.map(({ pod }) => pod))
  return {
    remove,
    create: vacant
      .filter((node) => input.notBefore(node) <= now)
      .map((node) => ({ node, restarts: input.restartsOn(node) })),
    adopt: pods.filter(
      (pod) => !removed.has(pod) && specHashOf(pod) === undefined && !isDeleted(pod),
    ),
    recheckAt: earliest(
      ...places.map(({ pod, rank }) => (pod && rank === 'pending' ? stuckAt(pod) : undefined)),
      ...vacant.map(input.notBefore).filter((time) => time > now),
      ...verdicts.map(({ recheckAt }) => recheckAt),
    ),
  }
}

/** The places of an Instance, the best first, and the Pods that have no place. */
function placesOf(input: PodPlanInput): { places: Place[]; misplaced: Removal[] } {
  const { instance, pods } = input
  // A second place for a node would make the Pod of the first place surplus.
  const nodes = [...new Set(instance.spec.nodes)]
  const podOf = new Map<NodeName, Pod>()
  const misplaced: Removal[] = []
  for (const pod of bestFirst(pods)) {
    const node = nodes.find((name) => name === pod.targetNode)
    if (node === undefined) misplaced.push(...removal(pod, 'its node does not see the device'))
    else if (podOf.has(node)) misplaced.push(...removal(pod, 'its node has another broker'))
    else podOf.set(node, pod)
  }
  const places = nodes
    .map((node) => ({ node, pod: podOf.get(node), rank: rankOf(node, podOf.get(node), input) }))
    .sort(
      (a, b) =>
        RANKS.indexOf(a.rank) - RANKS.indexOf(b.rank) ||
        weight(instance, b.node) - weight(instance, a.node),
    )
  return { places, misplaced }
}

function rankOf(
  node: NodeName,
  pod: Pod | undefined,
  { isUsable, restartsOn, now }: PodPlanInput,
): Rank {
  // A scheduled Pod keeps its place, however long it takes to start.
  const isPlaced = pod !== undefined && (pod.phase !== 'Pending' || pod.node !== '')
  const leaves = pod !== undefined && (isEnded(pod) || isDeleted(pod))
  if (isPlaced && !leaves) return 'running'
  if (!isUsable(node)) return 'unusable'
  if (leaves) return 'restarting'
  if (pod !== undefined) return stuckAt(pod) > now ? 'pending' : 'stuck'
  return restartsOn(node) > 0 ? 'restarting' : 'free'
}

type Verdict = {
  /** Whether no other broker may be updated now. */
  readonly blocksUpdates: boolean
  readonly recheckAt?: number | undefined
} & (
  | { readonly do: 'keep' }
  | { readonly do: 'update' }
  | { readonly do: 'remove'; readonly reason: string; readonly restarts: number }
)

const SPEC_CHANGED = 'the spec has changed'

/** What happens to the Pod of a chosen node. */
function judge(pod: Pod, rank: Rank, specHash: string, { strategy, now }: PodPlanInput): Verdict {
  const remove = (reason: string, restarts: number, blocksUpdates = true): Verdict => ({
    do: 'remove',
    reason,
    restarts,
    blocksUpdates,
  })
  const keep = (blocksUpdates: boolean, recheckAt?: number): Verdict => ({
    do: 'keep',
    blocksUpdates,
    recheckAt,
  })
  if (isDeleted(pod)) return keep(true)
  const isOutdated =
    strategy === 'RollingUpdate' && ![undefined, specHash].includes(specHashOf(pod))
  if (isEnded(pod)) {
    if (isOutdated) return remove(SPEC_CHANGED, 0)
    const next = restart(endOf(pod), pod.metadata.uid)
    const restartAt = endedAt(pod, now) + next.waitMs
    return restartAt > now
      ? keep(true, restartAt)
      : remove(`it has ended: ${pod.reason || pod.phase}`, next.restarts)
  }
  if (isOutdated)
    return pod.ready ? { do: 'update', blocksUpdates: false } : remove(SPEC_CHANGED, 0, false)
  if (pod.phase !== 'Pending') return keep(!pod.ready)
  // A Pod that no node has had room for must not hold up the updates of the others for ever.
  const blocksUpdates = rank !== 'stuck'
  if (pod.startedAt === undefined) return keep(blocksUpdates)
  const expiresAt = pod.startedAt + PENDING_MS
  return expiresAt > now
    ? keep(blocksUpdates, expiresAt)
    : remove('it was pending for too long', restartsOf(pod) + 1, blocksUpdates)
}

function removal(pod: Pod, reason: string): Removal[] {
  return isDeleted(pod) ? [] : [{ pod, reason, restarts: 0 }]
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
function stuckAt({ metadata }: Pod): number {
  return Date.parse(metadata.creationTimestamp) + PENDING_MS
}

/** By the clock of the node, unless that clock is ahead. */
function endedAt({ endedAt: end, startedAt, metadata }: Pod, now: number): number {
  const past = [end, startedAt].find((time) => time !== undefined && time <= now)
  return past ?? Date.parse(metadata.creationTimestamp)
}

function endOf(pod: Pod): { restarts: number; refused: boolean; ranMs: number } {
  const { startedAt, endedAt: end } = pod
  const ranMs = end === undefined || startedAt === undefined ? 0 : end - startedAt
  return { restarts: restartsOf(pod), refused: isRefused(pod), ranMs }
}
