import type { Configuration, Instance } from '@akrijs/api'
import { ApiError, keyOf, type ObjectKey, type ReconcileResult } from '@akrijs/kube'
import type { Clock, Logger } from '@akrijs/runtime'
import type { ClusterState } from '../cluster-state.js'
import type { FirstSights } from '../first-sights.js'
import type { Job, Pod } from '../kubernetes-objects.js'
import { ANNOTATIONS, specHash } from '../labels.js'
import { ownerIdOf, ownerIn } from '../owners.js'
import { earliest, requeueAt } from '../requeue.js'
import type { StatusWriter } from '../status-writer.js'
import { type BrokerHistory, historyOf, historyText, JOB, withLegacy } from './broker-history.js'
import { brokerJob, brokerPod, jobName, podName } from './broker-template.js'
import { planInstance, sightLast } from './instance-plan.js'
import { planJob } from './job-plan.js'
import { withUpdate } from './pod-plan.js'
import { isEnded } from './pod-state.js'
import { podTemplateOf } from './pod-template.js'
import { restart } from './restart-backoff.js'

interface InstanceBrokersOptions {
  readonly state: ClusterState
  readonly clock: Clock
  readonly log: Logger
  readonly sights: FirstSights
  readonly status: Pick<StatusWriter<Instance>, 'write'>
  /** Whether the roll-out in a Configuration permits the replacement of a Pod now. */
  permits(configuration: ObjectKey, hash: string | undefined, pod: Pod): boolean
  /** Called for each broker that takes the place of a broker which ended. */
  onRestart?(configuration: string): void
}

/** The broker Pods of an Instance, or its Job. */
export class InstanceBrokers {
  readonly #options: InstanceBrokersOptions

  constructor(options: InstanceBrokersOptions) {
    this.#options = options
  }

  async reconcile(key: ObjectKey, signal: AbortSignal): Promise<ReconcileResult> {
    const { state, clock } = this.#options
    const instance = state.instances.cache.get(key)
    // The garbage collector deletes what a deleted Instance owned.
    if (instance === undefined) return {}
    // The garbage collector also deletes an Instance without its Configuration.
    const configuration = state.ownerOf(instance)
    if (configuration === undefined) return {}
    const podsAt = await this.#reconcilePods(instance, configuration, signal)
    const jobAt = await this.#reconcileJob(instance, configuration, signal)
    return requeueAt(earliest(podsAt, jobAt), clock.monotonicMs())
  }

  /** @returns when to check again, by `monotonicMs` */
  async #reconcilePods(
    instance: Instance,
    configuration: Configuration,
    signal: AbortSignal,
  ): Promise<number | undefined> {
    const { state, log, sights, permits } = this.#options
    const template = podTemplateOf(state.workloadSpec(configuration))
    const { spec, hash } = template
    const { uid, namespace } = instance.metadata
    const owner = ownerIdOf('Instance', instance)
    const plan = withUpdate(planInstance(instance, template, this.#options), (pod) =>
      permits(keyOf(configuration), hash, pod),
    )
    await this.#record(instance, plan.history, signal)
    for (const pod of plan.adopt)
      await this.#annotate(state.pods, pod, { [ANNOTATIONS.specHash]: hash ?? '' }, signal)
    for (const pod of plan.settle)
      await this.#annotate(state.pods, pod, { [ANNOTATIONS.replaced]: null }, signal)
    for (const { pod, reason } of plan.remove) {
      log.info({ pod: pod.metadata.name, reason }, 'broker removed')
      await this.#remove(instance, pod, signal)
    }
    for (const { node, restarts, replaced } of plan.create) {
      const creation = {
        namespace,
        name: podName(instance, node),
        // Names of two nodes can give the same name of a Pod.
        purpose: `${uid} ${node}`,
        make: (name: string) =>
          brokerPod({ instance, node, spec, hash: hash ?? '', restarts, replaced }, name),
        isSame: (pod: Pod) => ownerIn(pod) === owner && pod.targetNode === node,
      }
      if (!(await state.pods.create(creation, signal))) continue
      const created = state.pods.ownedBy(owner).find(({ targetNode }) => targetNode === node)
      sightLast(instance, node, created, sights)
      if (restarts > 0) this.#options.onRestart?.(configuration.metadata.name)
      log.info({ instance: instance.metadata.name, node, restarts }, 'broker created')
    }
    return plan.recheckAt
  }

  /** @returns when to check again, by `monotonicMs` */
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
    const history = historyOf(instance)
    const { restarts = 0 } = history.left[JOB] ?? {}
    const jobs = state.jobs.ownedBy(owner)
    const plan = planJob({
      instance,
      specHash: spec && hash,
      strategy: brokerSpec?.updateStrategy?.type ?? 'RollingUpdate',
      jobs,
      podsOf: (job) => state.pods.ownedBy(ownerIdOf('Job', job)),
      restarts,
      notBefore: this.#jobNotBefore(instance),
      now: clock.monotonicMs(),
    })
    // A Job that is deleted in the foreground stays until its Pods, which use the device, have
    // gone.
    const removeJob = (job: Job) =>
      state.jobs.remove(job, { propagationPolicy: 'Foreground', signal })
    switch (plan.do) {
      case 'nothing':
        return plan.recheckAt
      case 'adopt':
        await this.#annotate(state.jobs, plan.job, { [ANNOTATIONS.specHash]: hash }, signal)
        return undefined
      case 'record':
        await this.#record(instance, withLegacy(history, JOB, {}), signal)
        await this.#recordJob(instance, { name: plan.job.metadata.name, specHash: hash }, signal)
        return undefined
      case 'remove':
        for (const job of plan.jobs) {
          log.info({ job: job.metadata.name, reason: plan.reason }, 'broker removed')
          await removeJob(job)
        }
        return undefined
      case 'forget': {
        const legacy = { uid: plan.job.metadata.uid, restarts: plan.restarts }
        await this.#record(instance, withLegacy(history, JOB, legacy), signal)
        await this.#recordJob(instance, null, signal)
        return undefined
      }
      case 'repeat':
        log.info({ job: plan.job.metadata.name }, 'refused job removed')
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
        return undefined
      }
    }
  }

  /**
   * Whether a Job of this spec was created already. Asks the API server: another replica may have
   * created the Job, and the Job may have gone, before the watch reported either. A write that
   * changes nothing also fails if no record of a new Job could be written: without a record, the
   * Job would run again after its deletion.
   */
  async #isJobRecorded(instance: Instance, hash: string, signal: AbortSignal): Promise<boolean> {
    const { uid } = instance.metadata
    const current = await this.#options.status.write(instance, { metadata: { uid } }, signal)
    return current === undefined || current.status?.brokerJob?.specHash === hash
  }

  async #recordJob(
    instance: Instance,
    brokerJob: { name: string; specHash: string } | null,
    signal: AbortSignal,
  ): Promise<void> {
    const { uid } = instance.metadata
    await this.#options.status.write(instance, { metadata: { uid }, status: { brokerJob } }, signal)
  }

  async #annotate(
    { cache, api }: Pick<ClusterState['pods' | 'jobs' | 'instances'], 'cache' | 'api'>,
    { metadata }: Pod | Job | Instance,
    annotations: Readonly<Record<string, string | null>>,
    signal: AbortSignal,
  ): Promise<void> {
    const patch = { metadata: { uid: metadata.uid, annotations } }
    await unlessReplaced(async () =>
      cache.observe(await api.patch(keyOf({ metadata }), 'merge', patch, { signal })),
    )
  }

  /** When a Job that was refused may be created again, if it has gone meanwhile. */
  #jobNotBefore(instance: Instance): number {
    const { clock, sights } = this.#options
    const { uid = '', restarts = 0 } = historyOf(instance).left[JOB] ?? {}
    if (restarts === 0) return 0
    const { waitMs } = restart({ restarts: restarts - 1, refused: true, ranMs: 0 }, uid)
    return clock.monotonicMs() + waitMs - sights.ageMs(`Job of ${instance.metadata.uid}`, uid)
  }

  /** Writes the history, before anything that it is about happens. */
  async #record(instance: Instance, history: BrokerHistory, signal: AbortSignal): Promise<void> {
    const text = historyText(history)
    if (text === historyText(historyOf(instance))) return
    await this.#annotate(
      this.#options.state.instances,
      instance,
      { [ANNOTATIONS.brokers]: text },
      signal,
    )
  }

  async #remove(instance: Instance, pod: Pod, signal: AbortSignal): Promise<void> {
    // The kubelet has nothing left to stop in an ended Pod.
    const grace = isEnded(pod) ? { gracePeriodSeconds: 0 } : {}
    await this.#options.state.pods.remove(pod, { ...grace, signal })
    sightLast(instance, pod.targetNode, undefined, this.#options.sights)
  }
}

/** Writes to an object, unless the object has gone or another object has its name. */
async function unlessReplaced(write: () => Promise<unknown>): Promise<void> {
  try {
    await write()
  } catch (error) {
    if (!ApiError.is(error, 404) && !ApiError.is(error, 409)) throw error
  }
}
