import {
  finalizerNodes,
  finalizerRemoval,
  GROUP,
  heldSlots,
  type Instance,
  nodesOf,
  parseObjectMeta,
} from '@akrijs/api'
import {
  keyOf,
  type NodeName,
  type ObjectKey,
  objectKey,
  type ReconcileResult,
  type Resource,
} from '@akrijs/kube'
import { CacheIndex } from '../cache-index.js'
import type { StoredConfiguration } from '../cluster-state.js'
import { Failures } from '../failures.js'
import { changeInstance, planDeparture } from '../instance-nodes.js'
import { isDeleted, type KubernetesObject } from '../kubernetes-objects.js'
import { earliest, requeueAt } from '../requeue.js'
import type { Term } from '../term.js'
import { unlessOvertaken } from '../unless-overtaken.js'
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

/**
 * Removes lost nodes from Instances. A node whose agent runs leaves by itself. A deleted node
 * cannot, nor can a node that is silent, or has no agent any more, for the grace period. The slots
 * of its Pods stay claimed until the API server no longer lists these Pods as running.
 */
export class LostNodes {
  readonly #term: Term
  /** The last removal of a node from an Instance: its agent may run, and join again. */
  readonly #removals = new Map<string, Removal>()
  /** The objects with finalizers of a node. */
  readonly #finalizedInstances: CacheIndex<Instance, NodeName>
  readonly #finalizedConfigurations: CacheIndex<StoredConfiguration, NodeName>

  /** @param signal aborted at the end of the term */
  constructor(term: Term, signal: AbortSignal) {
    this.#term = term
    const { instances, statuses } = term.state
    this.#finalizedInstances = new CacheIndex(instances.cache, finalizerNodes, signal)
    this.#finalizedConfigurations = new CacheIndex(statuses.cache, finalizerNodes, signal)
  }

  /** Deletes an Instance that no node sees and no slot of which is claimed. */
  async reconcileInstance(
    key: ObjectKey,
    addNode: (node: NodeName) => void,
    signal: AbortSignal,
  ): Promise<ReconcileResult> {
    const { instances } = this.#term.state
    const instance = instances.cache.get(key)
    if (instance === undefined) return {}
    this.#addSuspects(instance, nodesOf(instance), addNode)
    const { nodes, deviceUsage } = instance.spec
    const isUnused = nodes.length === 0 && heldSlots(deviceUsage) === 0
    if (isUnused && !isDeleted(instance))
      await changeInstance(instances, instance, { do: 'delete' }, signal)
    return {}
  }

  /** Also of a Configuration whose spec is invalid. */
  async reconcileConfiguration(
    key: ObjectKey,
    addNode: (node: NodeName) => void,
  ): Promise<ReconcileResult> {
    const configuration = this.#term.state.statuses.cache.get(key)
    if (configuration !== undefined) this.#addSuspects(configuration, [], addNode)
    return {}
  }

  async reconcile(node: NodeName, signal: AbortSignal): Promise<ReconcileResult> {
    const { state, clock } = this.#term
    const instances = state.instancesByNode.get(node)
    const finalized = this.#finalizedBy(node)
    if (instances.length + finalized.length === 0) return {}
    const presence = await nodePresence(node, this.#term, signal)
    // The API server may refuse each write of an object that an earlier custom resource accepted.
    const failures = new Failures()
    if (presence.state === 'present') {
      const releaseAt = await this.#release(finalized, node, failures, signal)
      failures.throwFirst()
      return requeueAt(earliest(presence.lostAt, releaseAt), clock.monotonicMs())
    }
    for (const object of finalized) await failures.of(removeFinalizer(object, node, signal))
    const recheckAt =
      instances.length === 0
        ? undefined
        : await this.#leaveInstances(node, instances, presence, failures, signal)
    failures.throwFirst()
    return requeueAt(recheckAt, clock.monotonicMs())
  }

  /**
   * A deleted object waits for its finalizers, also for those of nodes that are present. On a node
   * with an agent of this system, a finalizer is a leftover.
   */
  #addSuspects(
    object: StoredConfiguration | Instance,
    nodes: Iterable<NodeName>,
    addNode: (node: NodeName) => void,
  ): void {
    const { state } = this.#term
    const finalizers = finalizerNodes(object)
    for (const node of [...nodes, ...finalizers]) if (!state.isReady(node)) addNode(node)
    // Another write may have overtaken the removal of a node whose agent has left.
    for (const node of nodes) if (state.reportIndex.presence(node) === 'left') addNode(node)
    for (const node of finalizers)
      if (isDeleted(object) || state.reportIndex.presence(node) === 'present') addNode(node)
  }

  /** @returns when to check again, by `monotonicMs` */
  async #leaveInstances(
    node: NodeName,
    instances: readonly Instance[],
    presence: NodePresence,
    failures: Failures,
    signal: AbortSignal,
  ): Promise<number | undefined> {
    const { state, client, clock, nodeGraceMs, log, compatibility } = this.#term
    for (const [departure, { at, pauseMs }] of this.#removals)
      if (at + pauseMs + nodeGraceMs <= clock.monotonicMs()) this.#removals.delete(departure)
    const resources = new Set<string>()
    for await (const pod of devicePodsOf(node, { client, signal }))
      for (const name of pod.resources) resources.add(name)
    let recheckAt: number | undefined
    let left = 0
    let podsRemain = false
    for (const instance of instances) {
      const departure = `${node} ${keyOf(instance)}`
      const last = this.#removals.get(departure)
      const isIn = instance.spec.nodes.includes(node)
      const dueAt = last === undefined ? 0 : last.at + last.pauseMs
      if (isIn && dueAt > clock.monotonicMs()) {
        recheckAt = earliest(recheckAt, dueAt)
        continue
      }
      const { metadata, spec } = instance
      const isUsed =
        resources.has(`${GROUP}/${metadata.name}`) ||
        resources.has(`${GROUP}/${spec.configurationName}`)
      podsRemain ||= isUsed
      const change = planDeparture(instance, node, isUsed, compatibility)
      const written = changeInstance(state.instances, instance, change, signal)
      if ((await failures.of(written)) !== true) continue
      left++
      if (!isIn) continue
      // The agent of a node without a kubelet adds the node again: one removal per grace period.
      const pauseMs =
        presence.state === 'silent' ? nodeGraceMs : (last?.pauseMs ?? PAUSE_MS / 2) * 2
      this.#removals.set(departure, {
        at: clock.monotonicMs(),
        pauseMs: Math.min(nodeGraceMs, pauseMs),
      })
    }
    if (left > 0) log.info({ node, instances: left, podsRemain }, 'lost node removed')
    return podsRemain ? earliest(recheckAt, clock.monotonicMs() + POD_CHECK_MS) : recheckAt
  }

  #finalizedBy(node: NodeName): FinalizedObject[] {
    const { statuses, instances } = this.#term.state
    const ofConfigurations = this.#finalizedConfigurations.get(node)
    const ofInstances = this.#finalizedInstances.get(node)
    return [
      ...ofConfigurations.map(({ metadata }) => ({ api: statuses.api, metadata })),
      ...ofInstances.map(({ metadata }) => ({ api: instances.api, metadata })),
    ]
  }

  /**
   * Removes the finalizers that an agent of Akri 0.13 has left on a node where an agent
   * of this system took its place. On any other node it removes those of objects whose deletion has
   * waited for the grace period: an agent of Akri 0.13 that still ran there would have
   * removed its finalizer long ago.
   * @returns when to check again, by `monotonicMs`
   */
  async #release(
    finalized: readonly FinalizedObject[],
    node: NodeName,
    failures: Failures,
    signal: AbortSignal,
  ): Promise<number | undefined> {
    const { clock, sights, nodeGraceMs, log } = this.#term
    const now = clock.monotonicMs()
    // An agent of Akri 0.13 that runs unseen would add its finalizer again.
    const releaseOf = (object: FinalizedObject) =>
      `finalizer of ${node} on ${object.metadata.uid} ${isDeleted(object)}`
    const due = finalized.filter((object) => {
      const { ageMs = Infinity } = sights.last(releaseOf(object)) ?? {}
      return ageMs >= nodeGraceMs
    })
    const takeover = due.length > 0 ? await this.#takeoverOf(node, signal) : 'none'
    const waitedAt = ({ metadata: { uid, deletionTimestamp } }: FinalizedObject) => {
      if (takeover === 'complete') return 0
      if (deletionTimestamp === undefined) return Infinity
      return now + nodeGraceMs - sights.ageMs(`deletion ${uid}`, deletionTimestamp)
    }
    const ready = due.filter((object) => waitedAt(object) <= now)
    // Another program may wait for the end of a deletion.
    ready.sort((a, b) => Number(isDeleted(b)) - Number(isDeleted(a)))
    let objects = 0
    for (const object of ready.slice(0, MAX_RELEASES)) {
      const result = await failures.of(removeFinalizer(object, node, signal))
      if (result === 'removed') objects++
      // The watch event of the other write starts the next reconcile.
      if (result === 'removed' || result === 'kept') sights.ageMs(releaseOf(object), String(now))
    }
    if (objects > 0) log.info({ node, objects }, 'leftover finalizers removed')
    const waits = due.map(waitedAt).filter((time) => time > now && time < Infinity)
    return earliest(
      ...waits,
      ready.length > MAX_RELEASES ? now + REST_MS : undefined,
      // No watch shows the end of an agent in another namespace.
      takeover === 'pending' ? now + POD_CHECK_MS : undefined,
    )
  }

  /** Whether an agent of this system has taken the place of the agent of Akri 0.13. */
  async #takeoverOf(node: NodeName, signal: AbortSignal): Promise<Takeover> {
    const { state, client, sights } = this.#term
    const report = state.reports.cache.get(objectKey('', node))
    if (!state.hasReports || report === undefined) return 'none'
    if (state.reportIndex.presence(node) !== 'present') return 'none'
    const hasOther = await hasOtherAgent(report, sights, { client, signal })
    return hasOther ? 'pending' : 'complete'
  }
}

interface Removal {
  /** By `monotonicMs`. */
  readonly at: number
  /** For how long the node is not removed again, in milliseconds. */
  readonly pauseMs: number
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
