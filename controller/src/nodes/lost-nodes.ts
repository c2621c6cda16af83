import {
  finalizerNodes,
  finalizerRemoval,
  GROUP,
  heldSlots,
  type Instance,
  parseObjectMeta,
} from '@akrijs/api'
import {
  keyOf,
  type NodeName,
  type ObjectKey,
  objectKey,
  type RecheckAfter,
  type Resource,
} from '@akrijs/kube'
import type { ClusterState, StoredConfiguration } from '../cluster-state.js'
import { Failures } from '../errors.js'
import { changeInstance, planDeparture, unlessOvertaken } from '../instance-nodes.js'
import { isDeleted, type KubernetesObject } from '../kubernetes-objects.js'
import type { Term } from '../term.js'
import { devicePodsOf, hasOtherAgent } from './node-pods.js'
import { type NodePresence, nodePresence } from './node-presence.js'

/** How often the Pods of a node are listed while they stand in the way, in milliseconds. */
const POD_CHECK_MS = 10_000
/** The pause before a node is removed from an Instance again, in milliseconds; it doubles. */
const PAUSE_MS = 2000
/** The most finalizers that a pass of a node removes: each write wakes all agents. */
const MAX_RELEASES = 50
/** When the rest is removed, in milliseconds. */
const REST_MS = 2000

// Lost nodes are removed from Instances. A node whose agent runs leaves by itself. A deleted node
// cannot, nor can a node that is silent, or has no agent any more, for the grace period. The slots
// of its Pods stay claimed until the API server no longer lists these Pods as running.

/** Deletes an Instance that no node sees and no slot of which is claimed. */
export async function reconcileDeserted(
  key: ObjectKey,
  { state: { instances } }: Term,
  signal: AbortSignal,
): Promise<void> {
  const instance = instances.cache.get(key)
  if (instance === undefined || isDeleted(instance)) return
  const { nodes, deviceUsage } = instance.spec
  if (nodes.length === 0 && heldSlots(deviceUsage) === 0)
    await changeInstance(instances, instance, { do: 'delete' }, signal)
}

/**
 * The nodes of an Instance or a Configuration that may be lost. A deleted object waits for its
 * finalizers, also for those of nodes that are present. On a node with an agent of this system, a
 * finalizer is a leftover.
 * @param nodes that see the device
 */
export function suspectsOf(
  object: StoredConfiguration | Instance,
  nodes: Iterable<NodeName>,
  state: ClusterState,
): NodeName[] {
  const presence = (node: NodeName) => state.reportIndex.presence(node)
  // Another write may have overtaken the removal of a node whose agent has left.
  const lost = [...nodes].filter((node) => !state.isReady(node) || presence(node) === 'left')
  const finalizers = finalizerNodes(object).filter(
    (node) => isDeleted(object) || !state.isReady(node) || presence(node) === 'present',
  )
  return [...lost, ...finalizers]
}

export async function reconcileNode(
  node: NodeName,
  term: Term,
  signal: AbortSignal,
  recheckAfter: RecheckAfter,
): Promise<void> {
  const { state } = term
  const instances = state.instancesByNode.get(node)
  const finalized = finalizedBy(node, state)
  if (instances.length + finalized.length === 0) return
  const presence = await nodePresence(node, term, signal)
  // The API server may refuse each write of an object that an earlier custom resource accepted.
  const errors = new Failures()
  const pass = { ...term, node, errors, signal, recheckAfter }
  if (presence.state === 'present') {
    recheckAfter(presence.lostInMs)
    await releaseFinalizers(finalized, pass)
  } else {
    for (const object of finalized) await errors.of(removeFinalizer(object, node, signal))
    if (instances.length > 0) await leaveInstances(instances, presence, pass)
  }
  errors.throwFirst()
}

/** The work on one node. */
interface Pass extends Term {
  readonly node: NodeName
  readonly errors: Failures
  readonly signal: AbortSignal
  readonly recheckAfter: RecheckAfter
}

async function leaveInstances(
  instances: readonly Instance[],
  presence: NodePresence,
  pass: Pass,
): Promise<void> {
  const { node, state, client, clock, sights, nodeGraceMs, log, compatibility, errors } = pass
  const resources = new Set<string>()
  for await (const pod of devicePodsOf(node, { client, signal: pass.signal }))
    for (const name of pod.resources) resources.add(name)
  let left = 0
  let podsRemain = false
  for (const instance of instances) {
    const { metadata, spec } = instance
    const isIn = spec.nodes.includes(node)
    // After a removal its agent may run, and join again.
    const removal = `removal of ${node} from ${keyOf(instance)}`
    const { fact = '', ageMs = 0 } = sights.last(removal) ?? {}
    const lastPauseMs = Number.parseInt(fact, 10) || 0
    if (isIn && ageMs < lastPauseMs) {
      pass.recheckAfter(lastPauseMs - ageMs)
      continue
    }
    const isUsed =
      resources.has(`${GROUP}/${metadata.name}`) ||
      resources.has(`${GROUP}/${spec.configurationName}`)
    podsRemain ||= isUsed
    const change = planDeparture(instance, node, isUsed, compatibility)
    const written = changeInstance(state.instances, instance, change, pass.signal)
    if ((await errors.of(written)) !== true) continue
    left++
    if (!isIn) continue
    // The agent of a node without a kubelet adds the node again: one removal per grace period.
    const isStable = lastPauseMs === 0 || ageMs >= lastPauseMs + nodeGraceMs
    const nextMs = isStable ? PAUSE_MS : 2 * lastPauseMs
    const pauseMs = presence.state === 'silent' ? nodeGraceMs : Math.min(nodeGraceMs, nextMs)
    // Later than that, the next removal has the first pause again.
    sights.ageMs(removal, `${pauseMs} ms from ${clock.monotonicMs()}`, pauseMs + nodeGraceMs)
  }
  if (left > 0) log.info({ node, instances: left, podsRemain }, 'lost node removed')
  if (podsRemain) pass.recheckAfter(POD_CHECK_MS)
}

function finalizedBy(node: NodeName, state: ClusterState): FinalizedObject[] {
  const { configurations, instances, finalized } = state
  const of = ({ api }: { readonly api: Resource }, objects: readonly KubernetesObject[]) =>
    objects.map(({ metadata }) => ({ api, metadata }))
  return [
    ...of(configurations, finalized.configurations.get(node)),
    ...of(instances, finalized.instances.get(node)),
  ]
}

/**
 * Removes the finalizers that an agent of Akri 0.13 has left on a node where an agent of this
 * system took its place. On any other node it removes those of objects whose deletion has waited
 * for the grace period: an agent of Akri 0.13 that still ran there would have removed its finalizer
 * long ago.
 */
async function releaseFinalizers(finalized: readonly FinalizedObject[], pass: Pass): Promise<void> {
  const { node, clock, sights, nodeGraceMs, log, errors, signal, recheckAfter } = pass
  const now = clock.monotonicMs()
  // An agent of Akri 0.13 that runs unseen would add its finalizer again.
  const releaseOf = (object: FinalizedObject) =>
    `finalizer of ${node} on ${object.metadata.uid} ${isDeleted(object)}`
  const due = finalized.filter((object) => {
    const { ageMs = Infinity } = sights.last(releaseOf(object)) ?? {}
    return ageMs >= nodeGraceMs
  })
  const takeover = due.length > 0 ? await takeoverOf(pass) : 'none'
  const waitMs = ({ metadata: { uid, deletionTimestamp } }: FinalizedObject) => {
    if (takeover === 'complete') return 0
    if (deletionTimestamp === undefined) return Infinity
    return nodeGraceMs - sights.ageMs(`deletion ${uid}`, deletionTimestamp)
  }
  const ready = due.filter((object) => waitMs(object) <= 0)
  // Another program may wait for the end of a deletion.
  ready.sort((a, b) => Number(isDeleted(b)) - Number(isDeleted(a)))
  let objects = 0
  for (const object of ready.slice(0, MAX_RELEASES)) {
    const result = await errors.of(removeFinalizer(object, node, signal))
    if (result === 'removed') objects++
    // The watch event of the other write starts the next reconcile.
    if (result === 'removed' || result === 'kept') sights.ageMs(releaseOf(object), String(now))
  }
  if (objects > 0) log.info({ node, objects }, 'leftover finalizers removed')
  for (const ms of due.map(waitMs)) if (ms > 0) recheckAfter(ms)
  if (ready.length > MAX_RELEASES) recheckAfter(REST_MS)
  // No watch shows the end of an agent in another namespace.
  if (takeover === 'pending') recheckAfter(POD_CHECK_MS)
}

/** Whether an agent of this system has taken the place of the agent of Akri 0.13. */
async function takeoverOf({ node, state, client, sights, signal }: Pass): Promise<Takeover> {
  const report = state.reports.cache.get(objectKey('', node))
  if (!state.hasReports || report === undefined) return 'none'
  if (state.reportIndex.presence(node) !== 'present') return 'none'
  const hasOther = await hasOtherAgent(report, sights, { client, signal })
  return hasOther ? 'pending' : 'complete'
}

/** `none`: no agent of this system is ready. `pending`: another agent is on the node too. */
type Takeover = 'none' | 'pending' | 'complete'

/** An object that has the finalizer of a node. */
interface FinalizedObject extends KubernetesObject {
  readonly api: Resource
}

/** @returns `kept` if no agent of the node wrote the finalizer */
async function removeFinalizer(
  object: FinalizedObject,
  node: NodeName,
  signal: AbortSignal,
): Promise<'removed' | 'kept' | 'overtaken'> {
  const { api } = object
  const key = keyOf(object)
  // The cache keeps no managed fields.
  const found = await api.get(key, { signal })
  const metadata = parseObjectMeta(found)
  const patch = finalizerRemoval(found, node)
  if (metadata === undefined || patch === undefined) return 'kept'
  const write = () => api.patch(key, 'json', patch, { signal })
  return (await unlessOvertaken(api, { metadata }, signal, write)) ? 'removed' : 'overtaken'
}
