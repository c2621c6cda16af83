import {
  type Configuration,
  conditionsOf,
  GROUP,
  heldSlots,
  type Instance,
  parseObjectMeta,
} from '@akrijs/api'
import {
  ApiError,
  keyOf,
  type NodeName,
  type ObjectKey,
  type ReconcileResult,
  type Resource,
} from '@akrijs/kube'
import type { Logger } from '@akrijs/runtime'
import { isDeleted, type KubernetesObject } from '../kubernetes-objects.js'
import { earliest, requeueAt } from '../requeue.js'
import { nodesOf, planDeparture } from './instance-departure.js'
import { finalizerNodes, finalizerRemoval } from './node-finalizers.js'
import { resourcesOf } from './node-pods.js'
import { type NodePresence, type NodePresenceOptions, nodePresence } from './node-presence.js'

interface LostNodesOptions extends NodePresenceOptions {
  readonly log: Logger
}

/** How often the Pods of a lost node are listed while they may still run, in milliseconds. */
const POD_CHECK_MS = 10_000

/**
 * Removes lost nodes from Instances and from the status of Configurations. A node whose agent runs
 * leaves by itself; a deleted node, or a node that is silent for the grace period, cannot. The
 * slots of its Pods stay claimed until the API server no longer lists these Pods as running.
 */
export class LostNodes {
  readonly #options: LostNodesOptions
  /** When a silent node was last removed from an Instance, in milliseconds since the epoch. */
  readonly #removedAt = new Map<string, number>()

  constructor(options: LostNodesOptions) {
    this.#options = options
  }

  /** Deletes an Instance that no node sees and no slot of which is claimed. */
  async reconcileInstance(
    key: ObjectKey,
    addNode: (node: NodeName) => void,
    signal: AbortSignal,
  ): Promise<ReconcileResult> {
    const instance = this.#options.state.instances.cache.get(key)
    if (instance === undefined) return {}
    this.#addSuspects(instance, nodesOf(instance), addNode)
    const { nodes, deviceUsage } = instance.spec
    const isUnused = nodes.length === 0 && heldSlots(deviceUsage) === 0
    if (isUnused && !isDeleted(instance)) await this.#delete(instance, signal)
    return {}
  }

  async reconcileConfiguration(
    key: ObjectKey,
    addNode: (node: NodeName) => void,
  ): Promise<ReconcileResult> {
    const configuration = this.#options.state.configurations.cache.get(key)
    if (configuration !== undefined)
      this.#addSuspects(configuration, reportingNodes(configuration), addNode)
    return {}
  }

  async reconcile(node: NodeName, signal: AbortSignal): Promise<ReconcileResult> {
    const { state, clock } = this.#options
    const instances = state.instances.cache.list().filter((instance) => nodesOf(instance).has(node))
    const reported = state.configurations.cache
      .list()
      .filter((configuration) => reportingNodes(configuration).includes(node))
    const finalized = this.#finalizedBy(node)
    if (instances.length + reported.length + finalized.length === 0) return {}
    const presence = await nodePresence(node, this.#options, signal)
    if (presence.state === 'present') {
      const releaseAt = await this.#releaseDeleted(finalized, node, signal)
      return requeueAt(earliest(presence.silentAt, releaseAt), clock.wallMs())
    }
    for (const object of finalized) await removeFinalizer(object, node, signal)
    // The agent of a silent node may still report its status.
    if (presence.state === 'deleted')
      for (const configuration of reported) await this.#removeReport(configuration, node, signal)
    if (instances.length === 0) return {}
    const recheckAt = await this.#leaveInstances(node, instances, presence, signal)
    return requeueAt(recheckAt, clock.wallMs())
  }

  /** A deleted object waits for its finalizers, also for those of nodes that are present. */
  #addSuspects(
    object: Configuration | Instance,
    nodes: Iterable<NodeName>,
    addNode: (node: NodeName) => void,
  ): void {
    const { state } = this.#options
    const finalizers = finalizerNodes(object)
    for (const node of [...nodes, ...finalizers]) if (!state.isReady(node)) addNode(node)
    if (isDeleted(object)) for (const node of finalizers) addNode(node)
  }

  /** @returns when to check again, in milliseconds since the epoch */
  async #leaveInstances(
    node: NodeName,
    instances: readonly Instance[],
    presence: NodePresence,
    signal: AbortSignal,
  ): Promise<number | undefined> {
    const { client, clock, graceMs, log } = this.#options
    for (const [departure, at] of this.#removedAt)
      if (at + graceMs <= clock.wallMs()) this.#removedAt.delete(departure)
    const resources = await resourcesOf(node, { client, signal })
    let recheckAt: number | undefined
    let left = 0
    let podsRemain = false
    for (const instance of instances) {
      const departure = `${node} ${keyOf(instance)}`
      const removedAt = this.#removedAt.get(departure)
      // The agent of a node without a kubelet adds the node again: one removal per grace period.
      if (
        removedAt !== undefined &&
        presence.state === 'silent' &&
        instance.spec.nodes.includes(node)
      ) {
        recheckAt = earliest(recheckAt, removedAt + graceMs)
        continue
      }
      const { metadata, spec } = instance
      const isUsed =
        resources.has(`${GROUP}/${metadata.name}`) ||
        resources.has(`${GROUP}/${spec.configurationName}`)
      podsRemain ||= isUsed
      if (!(await this.#leave(instance, node, isUsed, signal))) continue
      this.#removedAt.set(departure, clock.wallMs())
      left++
    }
    if (left > 0) log.info({ node, instances: left, podsRemain }, 'lost node removed')
    return podsRemain ? earliest(recheckAt, clock.wallMs() + POD_CHECK_MS) : recheckAt
  }

  /** @returns whether the Instance was changed */
  async #leave(
    instance: Instance,
    node: NodeName,
    isUsed: boolean,
    signal: AbortSignal,
  ): Promise<boolean> {
    const { instances } = this.#options.state
    const departure = planDeparture(instance, node, isUsed)
    if (departure.do === 'nothing') return false
    if (departure.do === 'delete') return this.#delete(instance, signal)
    return unlessOvertaken(instances.api, instance, signal, async () =>
      instances.cache.observe(
        await instances.api.patch(keyOf(instance), 'json', departure.patch, { signal }),
      ),
    )
  }

  /**
   * A node that joins, or claims a slot, at the same moment wins: its write changes the version.
   */
  #delete(instance: Instance, signal: AbortSignal): Promise<boolean> {
    const { api } = this.#options.state.instances
    const { uid, resourceVersion } = instance.metadata
    const options = { propagationPolicy: 'Background', signal } as const
    return unlessOvertaken(api, instance, signal, () =>
      api.delete(keyOf(instance), { uid, resourceVersion }, options),
    )
  }

  #finalizedBy(node: NodeName): FinalizedObject[] {
    const { configurations, instances } = this.#options.state
    return [configurations, instances].flatMap(({ cache, api }) =>
      cache
        .list()
        .filter(({ metadata }) => metadata.finalizers?.includes(node))
        .map(({ metadata }) => ({ api, metadata })),
    )
  }

  /**
   * Releases objects whose deletion has waited for the grace period: an agent of the existing
   * system that still ran on the node would have removed its finalizer long ago.
   * @returns when the next object will have waited as long, in milliseconds since the epoch
   */
  async #releaseDeleted(
    finalized: readonly FinalizedObject[],
    node: NodeName,
    signal: AbortSignal,
  ): Promise<number | undefined> {
    const { clock, graceMs } = this.#options
    let next: number | undefined
    for (const object of finalized) {
      const releaseAt = Date.parse(object.metadata.deletionTimestamp ?? '') + graceMs
      // The object is not being deleted.
      if (Number.isNaN(releaseAt)) continue
      if (releaseAt <= clock.wallMs()) await removeFinalizer(object, node, signal)
      else next = earliest(next, releaseAt)
    }
    return next
  }

  /** No agent will correct the report of a deleted node: a False condition in it would stay. */
  async #removeReport(
    configuration: Configuration,
    node: NodeName,
    signal: AbortSignal,
  ): Promise<void> {
    const { state, clock } = this.#options
    const { metadata, status } = configuration
    const { [node]: _removed, ...reports } = status?.nodes ?? {}
    const now = new Date(clock.wallMs()).toISOString()
    const patch = {
      // The conditions summarise the reports of this version.
      metadata: { resourceVersion: metadata.resourceVersion },
      status: {
        conditions: conditionsOf(reports, status?.conditions ?? [], now),
        nodes: { [node]: null },
      },
    }
    const { cache, api } = state.configurations
    const options = { signal, subresource: 'status' } as const
    await unlessOvertaken(api, configuration, signal, async () =>
      cache.observe(await api.patch(keyOf(configuration), 'merge', patch, options)),
    )
  }
}

/** An object that has the finalizer of a node. */
interface FinalizedObject extends KubernetesObject {
  readonly api: Resource
}

async function removeFinalizer(
  object: FinalizedObject,
  node: NodeName,
  signal: AbortSignal,
): Promise<void> {
  const { api } = object
  const key = keyOf(object)
  // The cache keeps no managed fields.
  const found = await api.get(key, { signal })
  const metadata = parseObjectMeta(found)
  const patch = finalizerRemoval(found, node)
  if (metadata === undefined || patch === undefined) return
  await unlessOvertaken(api, { metadata }, signal, () => api.patch(key, 'json', patch, { signal }))
}

/**
 * Writes a change that tests the state that it builds on. If the object has changed or gone
 * meanwhile, nothing is written, and the watch event starts the next reconcile.
 * @returns whether the change was written
 * @throws ApiError if the API server refuses the write itself
 */
async function unlessOvertaken(
  api: Resource,
  object: KubernetesObject,
  signal: AbortSignal,
  write: () => Promise<unknown>,
): Promise<boolean> {
  try {
    await write()
    return true
  } catch (error) {
    if (ApiError.is(error, 404) || ApiError.is(error, 409)) return false
    // A failed test and a violated schema give the same status.
    if (!ApiError.is(error, 422)) throw error
    const current = parseObjectMeta(await api.get(keyOf(object), { signal }))
    if (current?.resourceVersion === object.metadata.resourceVersion) throw error
    return false
  }
}

/** The nodes whose agents have reported the status of a Configuration. */
function reportingNodes({ status }: Configuration): NodeName[] {
  return Object.keys(status?.nodes ?? {}) as NodeName[]
}
