import { createHash } from 'node:crypto'
import type { Instance, UpdateStrategy } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube'
import { ANNOTATIONS } from '../labels.js'
import type { Pod } from '../objects.js'
import { restart, restartsOf } from './backoff.js'

// Which broker Pods an Instance should have, and what is to be done to get there. A pure function of what there is: asked
// again, after a restart or by another replica, it says the same.

export interface PodPlanInput {
  readonly instance: Instance
  /** Of the spec that the Pods should be made from; undefined where there should be none. */
  readonly specHash: string | undefined
  readonly strategy: UpdateStrategy
  /** The Pods that belong to the Instance. */
  readonly pods: readonly Pod[]
  /** Whether a new broker could run there. */
  isUsable(node: NodeName): boolean
  /** How often in a row a broker of the node has been made again, where its Pod has gone already. */
  restartsOn(node: NodeName): number
  /** Before when none is to be made on the node, because those of before went as soon as they were made; since the epoch. */
  notBefore(node: NodeName): number
  /** Milliseconds since the epoch. */
  readonly now: number
}

export interface PodPlan {
  readonly remove: readonly { readonly pod: Pod; readonly why: string; readonly restarts: number }[]
  readonly create: readonly { readonly node: NodeName; readonly restarts: number }[]
  /** Pods of before there were hashes: they count as made from the present spec. */
  readonly adopt: readonly Pod[]
  /** When time alone will change the plan, in milliseconds since the epoch. */
  readonly lookAgainAt: number | undefined
}

/** How long a Pod may be pending before it is tried elsewhere, or anew, in milliseconds. */
const PENDING_MS = 5 * 60_000
/** How the kubelet says that it did not let a Pod in: a device plugin refused, or the node has not what the scheduler thought. */
const REFUSED = /^(UnexpectedAdmissionError|OutOf.*)$/

/** What a Pod does for its node. The order is that in which nodes keep their brokers when not all can. */
const STANDING = ['runs', 'restarts', 'waits', 'free', 'stuck', 'unusable'] as const
type Standing = (typeof STANDING)[number]

export function planPods(input: PodPlanInput): PodPlan {
  const { instance, specHash, pods, now } = input
  const removed: PodPlan['remove'][number][] = []
  const remove = (pod: Pod, why: string, restarts = 0) => {
    if (pod.metadata.deletionTimestamp === undefined) removed.push({ pod, why, restarts })
  }
  if (specHash === undefined || instance.metadata.deletionTimestamp !== undefined) {
    for (const pod of pods) remove(pod, 'no Pod is wanted')
    return { remove: removed, create: [], adopt: [], lookAgainAt: undefined }
  }

  const times: number[] = []
  const places = new Map<NodeName, Place>(
    instance.spec.nodes.map((node) => [node, { node, pod: undefined }]),
  )
  for (const pod of sorted(pods)) {
    const place = pod.targetNode === undefined ? undefined : places.get(pod.targetNode)
    if (place === undefined) remove(pod, 'its node does not see the device')
    else if (place.pod !== undefined) remove(pod, 'its node has another one')
    else place.pod = pod
  }

  const standings = new Map(
    [...places.values()].map((place) => [place, standing(place, input, times)]),
  )
  const ranked = [...places.values()].sort(
    (a, b) =>
      STANDING.indexOf(standings.get(a) ?? 'unusable') -
        STANDING.indexOf(standings.get(b) ?? 'unusable') ||
      weight(instance, b.node) - weight(instance, a.node),
  )
  const chosen = ranked.slice(0, Math.max(0, instance.spec.capacity))
  for (const { pod } of ranked.slice(chosen.length))
    if (pod !== undefined) remove(pod, 'as many as the capacity run elsewhere')

  // Those that are on their way out still use what they have.
  let room = instance.spec.capacity - pods.filter((pod) => !isEnded(pod)).length
  const create: PodPlan['create'][number][] = []
  const outdated: Pod[] = []
  let unavailable = 0
  for (const place of chosen) {
    const { node, pod } = place
    if (pod === undefined) {
      if (!input.isUsable(node) || room <= 0) continue
      room--
      unavailable++
      const due = input.notBefore(node)
      if (due > now) times.push(due)
      else create.push({ node, restarts: input.restartsOn(node) })
      continue
    }
    if (pod.metadata.deletionTimestamp !== undefined) {
      unavailable++
      continue
    }
    const isOutdated =
      input.strategy === 'RollingUpdate' && hashOf(pod) !== undefined && hashOf(pod) !== specHash
    if (isEnded(pod)) {
      unavailable++
      const next = restart(endOf(pod), pod.metadata.uid)
      const due = endedAt(pod, now) + next.waitMs
      // A new spec is a new beginning.
      if (isOutdated) remove(pod, 'the spec has changed')
      else if (due <= now) remove(pod, `it has ended: ${pod.reason || pod.phase}`, next.restarts)
      else times.push(due)
    } else if (isOutdated && !pod.ready) remove(pod, 'the spec has changed')
    else if (isOutdated) outdated.push(pod)
    else if (pod.phase === 'Pending') {
      // One for which there has been no room for long must not hold up the others.
      if (standings.get(place) !== 'stuck') unavailable++
      if (pod.startedAt === undefined) continue
      if (pod.startedAt + PENDING_MS <= now)
        remove(pod, 'it was pending for too long', restartsOf(pod) + 1)
      else times.push(pod.startedAt + PENDING_MS)
    } else if (!pod.ready) unavailable++
  }
  // One after the other, and only while all others are there.
  const [next] = outdated
  if (next !== undefined && unavailable === 0) remove(next, 'the spec has changed')

  const gone = new Set(removed.map(({ pod }) => pod))
  const adopt = pods.filter(
    (pod) =>
      !gone.has(pod) && hashOf(pod) === undefined && pod.metadata.deletionTimestamp === undefined,
  )
  return {
    remove: removed,
    create,
    adopt,
    lookAgainAt: times.length > 0 ? Math.min(...times) : undefined,
  }
}

interface Place {
  readonly node: NodeName
  pod: Pod | undefined
}

function standing(
  { node, pod }: Place,
  { isUsable, restartsOn, now }: PodPlanInput,
  times: number[],
): Standing {
  if (pod === undefined) {
    if (!isUsable(node)) return 'unusable'
    return restartsOn(node) > 0 ? 'restarts' : 'free'
  }
  const leaves = isEnded(pod) || pod.metadata.deletionTimestamp !== undefined
  if (leaves) return isUsable(node) ? 'restarts' : 'unusable'
  // Scheduled is as good as running; whether it takes too long is another question.
  if (pod.phase !== 'Pending' || pod.node !== '') return 'runs'
  if (!isUsable(node)) return 'unusable'
  const stuckAt = Date.parse(pod.metadata.creationTimestamp) + PENDING_MS
  if (stuckAt > now) times.push(stuckAt)
  return stuckAt > now ? 'waits' : 'stuck'
}

/** The best one of a node first: what stays of several is the one that is used. */
function sorted(pods: readonly Pod[]): Pod[] {
  const rank = (pod: Pod) =>
    (pod.metadata.deletionTimestamp === undefined ? 0 : 4) +
    (isEnded(pod) ? 2 : 0) +
    (pod.phase === 'Running' ? 0 : 1)
  return pods.toSorted((a, b) => rank(a) - rank(b) || (a.metadata.name < b.metadata.name ? -1 : 1))
}

/** Spreads the brokers of many Instances over the nodes, and gives the same nodes again to the same Instance. */
function weight({ metadata }: Instance, node: NodeName): number {
  return createHash('sha256')
    .update(`${metadata.namespace}/${metadata.name} ${node}`)
    .digest()
    .readUInt32BE()
}

export function isEnded({ phase }: Pod): boolean {
  return phase === 'Succeeded' || phase === 'Failed'
}

/** Whether the kubelet did not let it in. */
export function isRefused({ phase, reason }: Pod): boolean {
  return phase === 'Failed' && REFUSED.test(reason)
}

/** By the clock of its node, unless that is ahead of ours. */
function endedAt({ endedAt: ended, startedAt, metadata }: Pod, now: number): number {
  const known = [ended, startedAt].find((time) => time !== undefined && time <= now)
  return known ?? Date.parse(metadata.creationTimestamp)
}

function endOf(pod: Pod): { restarts: number; refused: boolean; ranMs: number } {
  const ranMs =
    pod.endedAt === undefined || pod.startedAt === undefined ? 0 : pod.endedAt - pod.startedAt
  return { restarts: restartsOf(pod), refused: isRefused(pod), ranMs }
}

function hashOf({ metadata }: Pod): string | undefined {
  return metadata.annotations?.[ANNOTATIONS.specHash]
}
