import { type Configuration, configurationOf, type Instance } from '@akrijs/api'
import { ApiError, keyOf, type NodeName, type ObjectKey, objectKey } from '@akrijs/kube'
import type { Clock, Logger } from '@akrijs/runtime'
import type { ClusterState } from '../cluster-state.js'
import { ANNOTATIONS, belongsTo, specHash } from '../labels.js'
import { ObjectWriter } from '../object-writer.js'
import type { ClusterNode, Job, KubernetesObject, Pod } from '../objects.js'
import { restart } from './backoff.js'
import { brokerJob, brokerPod, jobName, podName } from './broker-template.js'
import { planJob } from './job-plan.js'
import { isEnded, planPods } from './pod-plan.js'

export interface InstanceBrokersOptions {
  readonly state: ClusterState
  readonly clock: Clock
  readonly log: Logger
  /** Ends with the controller's turn. */
  readonly signal: AbortSignal
}

/** The broker Pods of an Instance, or its Job: brings them to where they should be. */
export class InstanceBrokers {
  readonly #options: InstanceBrokersOptions
  readonly #pods: ObjectWriter<Pod>
  readonly #jobs: ObjectWriter<Job>
  /** What is known of brokers whose Pod or Job has gone: by Instance, then by node; that of a Job by `JOB`. */
  readonly #past = new Map<ObjectKey, Map<string, Past>>()

  constructor(options: InstanceBrokersOptions) {
    this.#options = options
    const { state, signal } = options
    this.#pods = new ObjectWriter(state.pods, signal)
    this.#jobs = new ObjectWriter(state.jobs, signal)
  }

  /** @returns when to look again, in milliseconds since the epoch, if nothing happens before */
  async reconcile(key: ObjectKey): Promise<number | undefined> {
    const { state } = this.#options
    const instance = state.instances.cache.get(key)
    if (instance === undefined) {
      // What it owned goes with it: that is the garbage collector's.
      this.#past.delete(key)
      return undefined
    }
    const configuration = state.configurations.cache.get(configurationOf(instance))
    // Without its Configuration an Instance goes as well, and with it what it owns.
    if (configuration === undefined || !belongsTo(instance, configuration.metadata.uid))
      return undefined
    const times = [
      await this.#reconcilePods(instance, configuration),
      await this.#reconcileJob(instance, configuration),
    ]
    const known = times.filter((time) => time !== undefined)
    return known.length > 0 ? Math.min(...known) : undefined
  }

  async #reconcilePods(instance: Instance, { spec }: Configuration): Promise<number | undefined> {
    const { state, clock, log, signal } = this.#options
    const { brokerSpec } = spec
    const template =
      brokerSpec !== undefined && 'brokerPodSpec' in brokerSpec
        ? brokerSpec.brokerPodSpec
        : undefined
    const hash = template && specHash(template)
    const { uid, namespace } = instance.metadata
    const key = keyOf(instance)
    const plan = planPods({
      instance,
      specHash: hash,
      strategy: brokerSpec?.updateStrategy?.type ?? 'RollingUpdate',
      pods: state.podsOwnedBy(uid).map((pod) => (this.#pods.isLeaving(pod) ? leaving(pod) : pod)),
      isUsable: (node) =>
        isUsable(state.nodes.cache.get(objectKey('', node)), template?.nodeSelector),
      restartsOn: (node) => this.#past.get(key)?.get(node)?.restarts ?? 0,
      notBefore: (node) => this.#past.get(key)?.get(node)?.notBefore ?? 0,
      now: clock.wallMs(),
    })
    for (const pod of plan.adopt) await this.#adopt(state.pods, pod, hash ?? '')
    for (const { pod, why, restarts } of plan.remove) {
      log.info({ pod: pod.metadata.name, why }, 'broker removed')
      // Of one that has ended nothing has to be waited for.
      await this.#pods.remove(pod, { ...(isEnded(pod) ? { gracePeriodSeconds: 0 } : {}), signal })
      if (pod.targetNode !== undefined)
        this.#remember(key, pod.targetNode, { ...NO_PAST, restarts })
    }
    for (const { node, restarts } of plan.create) {
      const make = (name: string) =>
        brokerPod({ instance, node, spec: template ?? {}, hash: hash ?? '', restarts }, name)
      const isIt = (pod: Pod) => belongsTo(pod, uid) && pod.targetNode === node
      // Names of nodes can be different, and the names of their Pods the same.
      const creation = {
        namespace,
        name: podName(instance, node),
        of: `${uid} ${node}`,
        make,
        isIt,
      }
      if (!(await this.#pods.create(creation, signal))) continue
      this.#made(key, node)
      log.info({ instance: instance.metadata.name, node, restarts }, 'broker created')
    }
    return plan.lookAgainAt
  }

  async #reconcileJob(
    instance: Instance,
    configuration: Configuration,
  ): Promise<number | undefined> {
    const { state, clock, log, signal } = this.#options
    const { brokerSpec } = configuration.spec
    const template =
      brokerSpec !== undefined && 'brokerJobSpec' in brokerSpec
        ? brokerSpec.brokerJobSpec
        : undefined
    const hash = template && specHash(template)
    const { uid, namespace } = instance.metadata
    const key = keyOf(instance)
    const plan = planJob({
      instance,
      specHash: hash,
      strategy: brokerSpec?.updateStrategy?.type ?? 'RollingUpdate',
      jobs: state.jobsOwnedBy(uid).map((job) => (this.#jobs.isLeaving(job) ? leaving(job) : job)),
      podsOf: (job) => state.podsOwnedBy(job.metadata.uid),
      restarts: this.#past.get(key)?.get(JOB)?.restarts ?? 0,
      notBefore: this.#past.get(key)?.get(JOB)?.notBefore ?? 0,
      now: clock.wallMs(),
    })
    switch (plan.do) {
      case 'nothing':
        return plan.lookAgainAt
      case 'adopt':
        await this.#adopt(state.jobs, plan.job, hash ?? '')
        return undefined
      case 'remember':
        await this.#writeStatus(instance, { name: plan.job.metadata.name, specHash: hash ?? '' })
        return undefined
      case 'remove':
        for (const job of plan.jobs) {
          log.info({ job: job.metadata.name, why: plan.why }, 'broker removed')
          // Until its Pods have gone as well: they use the device.
          await this.#jobs.remove(job, { propagationPolicy: 'Foreground', signal })
        }
        return undefined
      case 'forget':
        this.#remember(key, JOB, { ...NO_PAST, restarts: plan.restarts, notBefore: plan.notBefore })
        await this.#writeStatus(instance, null)
        return undefined
      case 'repeat':
        log.info(
          { job: plan.job.metadata.name },
          'none of its Pods was let in: the job is made again',
        )
        this.#remember(key, JOB, { ...NO_PAST, restarts: plan.restarts })
        await this.#jobs.remove(plan.job, { propagationPolicy: 'Foreground', signal })
        return undefined
      case 'create': {
        if (!(await this.#isYetToBeMade(instance, hash))) return undefined
        const make = (name: string) =>
          brokerJob(
            { instance, spec: template ?? {}, hash: hash ?? '', restarts: plan.restarts },
            name,
          )
        const isIt = (job: Job) => belongsTo(job, uid)
        if (
          await this.#jobs.create(
            { namespace, name: jobName(instance, configuration), of: uid, make, isIt },
            signal,
          )
        )
          log.info({ instance: instance.metadata.name, restarts: plan.restarts }, 'job created')
        this.#past.get(key)?.delete(JOB)
        return undefined
      }
    }
  }

  /** Asks the server itself: another replica may have made the Job, and the Job may have gone, before the cache heard of it. */
  async #isYetToBeMade(instance: Instance, hash: string | undefined): Promise<boolean> {
    const { state, signal } = this.#options
    const { cache, api } = state.instances
    const now = cache.observe(await api.get(keyOf(instance), { signal }))
    return (
      now !== undefined &&
      now.metadata.uid === instance.metadata.uid &&
      now.status?.brokerJob?.specHash !== hash
    )
  }

  async #writeStatus(
    instance: Instance,
    brokerJob: { name: string; specHash: string } | null,
  ): Promise<void> {
    const { state, signal } = this.#options
    const { uid } = instance.metadata
    const patch = { metadata: { uid }, status: { brokerJob } }
    try {
      state.instances.cache.observe(
        await state.instances.api.patch(keyOf(instance), 'merge', patch, {
          subresource: 'status',
          signal,
        }),
      )
    } catch (error) {
      // It has gone, or another one has its name by now.
      if (!ApiError.is(error, 404) && !ApiError.is(error, 409)) throw error
    }
  }

  async #adopt<T extends Pod | Job>(
    kind: ClusterState['pods' | 'jobs'],
    { metadata }: T,
    hash: string,
  ): Promise<void> {
    const { signal } = this.#options
    const patch = { metadata: { uid: metadata.uid, annotations: { [ANNOTATIONS.specHash]: hash } } }
    try {
      kind.cache.observe(await kind.api.patch(keyOf({ metadata }), 'merge', patch, { signal }))
    } catch (error) {
      if (!ApiError.is(error, 404) && !ApiError.is(error, 409)) throw error
    }
  }

  /** One that then goes, and nobody says why, must not be made in a hot loop. */
  #made(key: ObjectKey, node: NodeName): void {
    const now = this.#options.clock.wallMs()
    const { made, at } = this.#past.get(key)?.get(node) ?? NO_PAST
    const next = restart({ restarts: made, refused: false, ranMs: now - at }, `${key} ${node}`)
    this.#remember(key, node, {
      restarts: 0,
      notBefore: now + next.waitMs,
      made: next.restarts,
      at: now,
    })
  }

  #remember(key: ObjectKey, broker: NodeName | typeof JOB, past: Past): void {
    const known = this.#past.get(key) ?? new Map<string, Past>()
    this.#past.set(key, known.set(broker, past))
  }
}

const JOB = ''

interface Past {
  /** How often in a row it was made again after it had ended. */
  readonly restarts: number
  /** Before when it is not to be made, in milliseconds since the epoch. */
  readonly notBefore: number
  /** How often in a row it was made and somebody took it away soon, and when that was last. */
  readonly made: number
  readonly at: number
}

const NO_PAST: Past = { restarts: 0, notBefore: 0, made: 0, at: 0 }

/** Whether a new broker could run there, as far as that can be told without being the scheduler. */
export function isUsable(node: ClusterNode | undefined, nodeSelector: unknown): boolean {
  if (
    node === undefined ||
    !node.ready ||
    !node.schedulable ||
    node.metadata.deletionTimestamp !== undefined
  )
    return false
  if (typeof nodeSelector !== 'object' || nodeSelector === null) return true
  // What is no text is for the server to refuse, with a reason.
  return Object.entries(nodeSelector).every(
    ([label, value]) => typeof value !== 'string' || node.metadata.labels?.[label] === value,
  )
}

function leaving<T extends KubernetesObject>(object: T): T {
  return {
    ...object,
    metadata: { ...object.metadata, deletionTimestamp: object.metadata.creationTimestamp },
  }
}
