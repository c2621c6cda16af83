import type { Configuration, Instance } from '@akrijs/api'
import {
  ApiError,
  keyOf,
  type NodeName,
  type ObjectKey,
  objectKey,
  type ReconcileResult,
} from '@akrijs/kube'
import type { Clock, Logger } from '@akrijs/runtime'
import type { ClusterState } from '../cluster-state.js'
import { type ClusterNode, isDeleted, type Job, type Pod } from '../kubernetes-objects.js'
import { ANNOTATIONS, specHash } from '../labels.js'
import { ownerIdOf, ownerIn } from '../owners.js'
import { earliest, requeueAt } from '../requeue.js'
import { brokerJob, brokerPod, jobName, podName } from './broker-template.js'
import { planJob } from './job-plan.js'
import { planPods } from './pod-plan.js'
import { isEnded } from './pod-state.js'
import { restart } from './restart-backoff.js'

interface InstanceBrokersOptions {
  readonly state: ClusterState
  readonly clock: Clock
  readonly log: Logger
}

/** The broker Pods of an Instance, or its Job. */
export class InstanceBrokers {
  readonly #options: InstanceBrokersOptions
  /** The history of deleted brokers: by Instance, then by node; that of a Job under `JOB`. */
  readonly #histories = new Map<ObjectKey, Map<NodeName | typeof JOB, BrokerHistory>>()

  constructor(options: InstanceBrokersOptions) {
    this.#options = options
  }

  async reconcile(key: ObjectKey, signal: AbortSignal): Promise<ReconcileResult> {
    const { state, clock } = this.#options
    const instance = state.instances.cache.get(key)
    // The garbage collector deletes what a deleted Instance owned.
    if (instance === undefined) {
      this.#histories.delete(key)
      return {}
    }
    // The garbage collector also deletes an Instance without its Configuration.
    const configuration = state.ownerOf(instance)
    if (configuration === undefined) return {}
    const podsAt = await this.#reconcilePods(instance, configuration, signal)
    const jobAt = await this.#reconcileJob(instance, configuration, signal)
    return requeueAt(earliest(podsAt, jobAt), clock.wallMs())
  }

  /** @returns when to check again, in milliseconds since the epoch */
  async #reconcilePods(
    instance: Instance,
    configuration: Configuration,
    signal: AbortSignal,
  ): Promise<number | undefined> {
    const { state, clock, log } = this.#options
    const { brokerSpec } = state.workloadSpec(configuration)
    const spec = brokerSpec && 'brokerPodSpec' in brokerSpec ? brokerSpec.brokerPodSpec : undefined
    const hash = spec && specHash(spec)
    const { uid, namespace } = instance.metadata
    const owner = ownerIdOf('Instance', instance)
    const key = keyOf(instance)
    const plan = planPods({
      instance,
      specHash: hash,
      strategy: brokerSpec?.updateStrategy?.type ?? 'RollingUpdate',
      pods: state.pods.ownedBy(owner),
      isUsable: (node) => isUsable(state.nodes.cache.get(objectKey('', node)), spec?.nodeSelector),
      restartsOn: (node) => this.#historyOf(key, node).restarts,
      notBefore: (node) => this.#historyOf(key, node).notBefore,
      now: clock.wallMs(),
    })
    for (const pod of plan.adopt) await this.#adopt(state.pods, pod, hash ?? '', signal)
    for (const { pod, reason, restarts } of plan.remove) {
      log.info({ pod: pod.metadata.name, reason }, 'broker removed')
      // The kubelet has nothing left to stop in an ended Pod.
      await state.pods.remove(pod, { ...(isEnded(pod) ? { gracePeriodSeconds: 0 } : {}), signal })
      if (pod.targetNode !== undefined)
        this.#record(key, pod.targetNode, { ...NO_HISTORY, restarts })
    }
    for (const { node, restarts } of plan.create) {
      const creation = {
        namespace,
        name: podName(instance, node),
        // Names of two nodes can give the same name of a Pod.
        purpose: `${uid} ${node}`,
        make: (name: string) =>
          brokerPod({ instance, node, spec: spec ?? {}, hash: hash ?? '', restarts }, name),
        isSame: (pod: Pod) => ownerIn(pod) === owner && pod.targetNode === node,
      }
      if (!(await state.pods.create(creation, signal))) continue
      this.#recordCreation(key, node)
      log.info({ instance: instance.metadata.name, node, restarts }, 'broker created')
    }
    return plan.recheckAt
  }

  /** @returns when to check again, in milliseconds since the epoch */
  async #reconcileJob(
    instance: Instance,
    configuration: Configuration,
    signal: AbortSignal,
  ): Promise<number | undefined> {
    const { state, clock, log } = this.#options
    const { brokerSpec } = state.workloadSpec(configuration)
    const spec = brokerSpec && 'brokerJobSpec' in brokerSpec ? brokerSpec.brokerJobSpec : undefined
    const hash = (spec && specHash(spec)) ?? ''
    const { uid, namespace, name: instanceName } = instance.metadata
    const owner = ownerIdOf('Instance', instance)
    const key = keyOf(instance)
    const history = this.#historyOf(key, JOB)
    const jobs = state.jobs.ownedBy(owner)
    const plan = planJob({
      instance,
      specHash: spec && hash,
      strategy: brokerSpec?.updateStrategy?.type ?? 'RollingUpdate',
      jobs,
      podsOf: (job) => state.pods.ownedBy(ownerIdOf('Job', job)),
      restarts: history.restarts,
      notBefore: history.notBefore,
      now: clock.wallMs(),
    })
    // A Job that is deleted in the foreground stays until its Pods, which use the device, have
    // gone.
    const removeJob = (job: Job) =>
      state.jobs.remove(job, { propagationPolicy: 'Foreground', signal })
    switch (plan.do) {
      case 'nothing':
        return plan.recheckAt
      case 'adopt':
        await this.#adopt(state.jobs, plan.job, hash, signal)
        return undefined
      case 'record':
        await this.#recordJob(instance, { name: plan.job.metadata.name, specHash: hash }, signal)
        return undefined
      case 'remove':
        for (const job of plan.jobs) {
          log.info({ job: job.metadata.name, reason: plan.reason }, 'broker removed')
          await removeJob(job)
        }
        return undefined
      case 'forget': {
        const { restarts, notBefore } = plan
        this.#record(key, JOB, { ...NO_HISTORY, restarts, notBefore })
        await this.#recordJob(instance, null, signal)
        return undefined
      }
      case 'repeat':
        log.info({ job: plan.job.metadata.name }, 'refused job removed')
        this.#record(key, JOB, { ...NO_HISTORY, restarts: plan.restarts })
        await removeJob(plan.job)
        return undefined
      case 'create': {
        if (await this.#isJobRecorded(instance, hash, signal)) return undefined
        const { restarts } = plan
        const creation = {
          namespace,
          name: jobName(instance, configuration),
          purpose: uid,
          make: (name: string) => brokerJob({ instance, spec: spec ?? {}, hash, restarts }, name),
          // A Job that the plan knows is an old one whose deletion is held.
          isSame: (job: Job) =>
            ownerIn(job) === owner &&
            !jobs.some(({ metadata }) => metadata.uid === job.metadata.uid),
        }
        if (await state.jobs.create(creation, signal))
          log.info({ instance: instanceName, restarts }, 'job created')
        this.#histories.get(key)?.delete(JOB)
        return undefined
      }
    }
  }

  /**
   * Whether a Job of this spec was created already. Asks the API server: another replica may have
   * created the Job, and the Job may have gone, before the watch reported either.
   */
  async #isJobRecorded(instance: Instance, hash: string, signal: AbortSignal): Promise<boolean> {
    const { cache, api } = this.#options.state.instances
    const current = cache.observe(await api.get(keyOf(instance), { signal }))
    return (
      current?.metadata.uid !== instance.metadata.uid ||
      current.status?.brokerJob?.specHash === hash
    )
  }

  async #recordJob(
    instance: Instance,
    brokerJob: { name: string; specHash: string } | null,
    signal: AbortSignal,
  ): Promise<void> {
    const { cache, api } = this.#options.state.instances
    const patch = { metadata: { uid: instance.metadata.uid }, status: { brokerJob } }
    await unlessReplaced(async () =>
      cache.observe(
        await api.patch(keyOf(instance), 'merge', patch, { subresource: 'status', signal }),
      ),
    )
  }

  async #adopt(
    { cache, api }: ClusterState['pods' | 'jobs'],
    { metadata }: Pod | Job,
    hash: string,
    signal: AbortSignal,
  ): Promise<void> {
    const patch = { metadata: { uid: metadata.uid, annotations: { [ANNOTATIONS.specHash]: hash } } }
    await unlessReplaced(async () =>
      cache.observe(await api.patch(keyOf({ metadata }), 'merge', patch, { signal })),
    )
  }

  /** A Pod that disappears without an end must not be created again in a hot loop. */
  #recordCreation(key: ObjectKey, node: NodeName): void {
    const now = this.#options.clock.wallMs()
    const { creations, createdAt } = this.#historyOf(key, node)
    const life = { restarts: creations, refused: false, ranMs: now - createdAt }
    const next = restart(life, `${key} ${node}`)
    this.#record(key, node, {
      restarts: 0,
      notBefore: now + next.waitMs,
      creations: next.restarts,
      createdAt: now,
    })
  }

  #historyOf(key: ObjectKey, broker: NodeName | typeof JOB): BrokerHistory {
    return this.#histories.get(key)?.get(broker) ?? NO_HISTORY
  }

  #record(key: ObjectKey, broker: NodeName | typeof JOB, history: BrokerHistory): void {
    const histories = this.#histories.get(key) ?? new Map<NodeName | typeof JOB, BrokerHistory>()
    this.#histories.set(key, histories.set(broker, history))
  }
}

const JOB = ''

interface BrokerHistory {
  /** How often in a row the broker was restarted after its end. */
  readonly restarts: number
  /** When the broker may be created again, in milliseconds since the epoch. */
  readonly notBefore: number
  /** How often in a row the broker was created and then deleted soon. */
  readonly creations: number
  /** The last creation, in milliseconds since the epoch. */
  readonly createdAt: number
}

const NO_HISTORY: BrokerHistory = { restarts: 0, notBefore: 0, creations: 0, createdAt: 0 }

/**
 * Whether a new broker could run on the node, as far as this can be known without the scheduler.
 */
export function isUsable(node: ClusterNode | undefined, nodeSelector: unknown): boolean {
  if (!node?.ready || !node.schedulable || isDeleted(node)) return false
  if (typeof nodeSelector !== 'object' || nodeSelector === null) return true
  // A value that is no string is refused by the API server, with a reason.
  return Object.entries(nodeSelector).every(
    ([label, value]) => typeof value !== 'string' || node.metadata.labels?.[label] === value,
  )
}

/** Writes to an object, unless the object has gone or another object has its name. */
async function unlessReplaced(write: () => Promise<unknown>): Promise<void> {
  try {
    await write()
  } catch (error) {
    if (!ApiError.is(error, 404) && !ApiError.is(error, 409)) throw error
  }
}
