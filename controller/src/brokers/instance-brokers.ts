import { type Configuration, configurationOf, type Instance } from '@akrijs/api'
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
import type { Job, Pod } from '../kubernetes-objects.js'
import { ANNOTATIONS, LABELS, specHash } from '../labels.js'
import { ownerIdOf, ownerIn } from '../owners.js'
import { earliest, requeueAt } from '../requeue.js'
import type { StatusWriter } from '../status-writer.js'
import { BrokerSuccessions } from './broker-successions.js'
import { brokerJob, brokerPod, jobName, podName } from './broker-template.js'
import { planJob } from './job-plan.js'
import { type PodPlan, planPods, SPEC_CHANGED } from './pod-plan.js'
import { isEnded } from './pod-state.js'
import { type PodTemplate, podTemplateOf } from './pod-template.js'
import { restart } from './restart-backoff.js'

interface InstanceBrokersOptions {
  readonly state: ClusterState
  readonly clock: Clock
  readonly log: Logger
  readonly status: Pick<StatusWriter<Instance>, 'write'>
  /** Called for each broker that takes the place of a broker which ended. */
  onRestart?(configuration: string): void
}

/** Up to this age an Instance is new, in milliseconds. */
const NEW_MS = 10_000
/**
 * How long the first broker of a new Instance waits for nodes to join, in milliseconds, unless all
 * nodes have: agents write at moments that are spread over a time that grows with the number of
 * nodes.
 */
const CHOICE_MS = 2000
const CHOICE_PER_NODE_MS = 20
const MAX_CHOICE_MS = 4000

/** The broker Pods of an Instance, or its Job. */
export class InstanceBrokers {
  readonly #options: InstanceBrokersOptions
  /** The history of deleted brokers: by Instance, then by node; that of a Job under `JOB`. */
  readonly #histories = new Map<ObjectKey, Map<NodeName | typeof JOB, BrokerHistory>>()

  /** When an Instance was first seen in this turn, by `monotonicMs`. */
  readonly #seenAt = new Map<ObjectKey, { readonly uid: string; readonly at: number }>()
  /** The uids of the Instances that were there when this turn began. */
  readonly #inherited: ReadonlySet<string>

  readonly #successions = new BrokerSuccessions()
  /** The Configurations that had brokers when this turn began. */
  readonly #hadBrokers: ReadonlySet<ObjectKey>

  constructor(options: InstanceBrokersOptions) {
    this.#options = options
    const instances = options.state.instances.cache.list()
    this.#inherited = new Set(instances.map(({ metadata }) => metadata.uid))
    const pods = options.state.pods.cache.list()
    this.#hadBrokers = new Set(
      pods.map(({ metadata: { namespace, labels } }) =>
        objectKey(namespace, labels?.[LABELS.configuration] ?? ''),
      ),
    )
  }

  async reconcile(key: ObjectKey, signal: AbortSignal): Promise<ReconcileResult> {
    const { state, clock } = this.#options
    const instance = state.instances.cache.get(key)
    // The garbage collector deletes what a deleted Instance owned.
    if (instance === undefined) {
      this.#histories.delete(key)
      this.#seenAt.delete(key)
      this.#successions.forget(key)
      return {}
    }
    // The garbage collector also deletes an Instance without its Configuration.
    const configuration = state.ownerOf(instance)
    if (configuration === undefined) return {}
    const podsAt = await this.#reconcilePods(instance, configuration, signal)
    const jobAt = await this.#reconcileJob(instance, configuration, signal)
    return requeueAt(earliest(podsAt, jobAt), clock.monotonicMs())
  }

  /** What {@link reconcile} would do about the Pods of an Instance now. */
  plan(instance: Instance, template: PodTemplate): PodPlan {
    const { state, clock } = this.#options
    const key = keyOf(instance)
    const { hash: specHash, obstacleOn, strategy } = template
    const pods = state.pods.ownedBy(ownerIdOf('Instance', instance))
    const hadBrokers = this.#hadBrokers.has(configurationOf(instance))
    this.#successions.meet(instance, pods, hadBrokers && !this.#isNew(instance))
    return planPods({
      instance,
      specHash,
      strategy,
      pods,
      isUsable: (node) => obstacleOn(state.nodes.cache.get(objectKey('', node))) === undefined,
      isAway: (node) => !state.isReady(node),
      replacedOn: (node) => this.#successions.of(key, node),
      restartsOn: (node) => this.#historyOf(key, node).restarts,
      hadNoRoomAt: (node) => this.#historyOf(key, node).hadNoRoomAt,
      notBefore: (node) => this.#historyOf(key, node).notBefore,
      choiceAt: this.#choiceAt(instance),
      now: clock.monotonicMs(),
    })
  }

  /** Deletes a Pod that worked, so that {@link reconcile} replaces it by a Pod of another spec. */
  async update(instance: Instance, pod: Pod, signal: AbortSignal): Promise<void> {
    const { state, log } = this.#options
    log.info({ pod: pod.metadata.name, reason: SPEC_CHANGED }, 'broker removed')
    if (pod.targetNode !== undefined) {
      const key = keyOf(instance)
      this.#record(key, pod.targetNode, NO_HISTORY)
      this.#successions.leave(key, pod.targetNode, 'working')
    }
    await state.pods.remove(pod, { signal })
  }

  /** @returns when to check again, by `monotonicMs` */
  async #reconcilePods(
    instance: Instance,
    configuration: Configuration,
    signal: AbortSignal,
  ): Promise<number | undefined> {
    const { state, clock, log } = this.#options
    const template = podTemplateOf(state.workloadSpec(configuration))
    const { spec, hash } = template
    const { uid, namespace } = instance.metadata
    const owner = ownerIdOf('Instance', instance)
    const key = keyOf(instance)
    const plan = this.plan(instance, template)
    for (const pod of plan.adopt)
      await this.#annotate(state.pods, pod, { [ANNOTATIONS.specHash]: hash ?? '' }, signal)
    for (const pod of plan.settle)
      await this.#annotate(state.pods, pod, { [ANNOTATIONS.replaced]: null }, signal)
    for (const { pod, reason, restarts, replaced, hadNoRoom } of plan.remove) {
      log.info({ pod: pod.metadata.name, reason }, 'broker removed')
      // Before the request, which may succeed without an answer.
      if (pod.targetNode !== undefined) {
        this.#record(key, pod.targetNode, {
          ...NO_HISTORY,
          restarts,
          hadNoRoomAt: hadNoRoom ? clock.monotonicMs() : undefined,
        })
        this.#successions.leave(key, pod.targetNode, replaced)
      }
      // The kubelet has nothing left to stop in an ended Pod.
      await state.pods.remove(pod, { ...(isEnded(pod) ? { gracePeriodSeconds: 0 } : {}), signal })
    }
    for (const { node, restarts } of plan.create) {
      const replaced = this.#successions.of(key, node)
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
      this.#recordCreation(key, node)
      if (restarts > 0) this.#options.onRestart?.(configuration.metadata.name)
      this.#successions.take(key, node)
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
    { cache, api }: ClusterState['pods' | 'jobs'],
    { metadata }: Pod | Job,
    annotations: Readonly<Record<string, string | null>>,
    signal: AbortSignal,
  ): Promise<void> {
    const patch = { metadata: { uid: metadata.uid, annotations } }
    await unlessReplaced(async () =>
      cache.observe(await api.patch(keyOf({ metadata }), 'merge', patch, { signal })),
    )
  }

  /**
   * When the nodes of a new Instance are known well enough to choose among them, by `monotonicMs`.
   * Otherwise all brokers would run on the node that is the quickest.
   */
  #choiceAt(instance: Instance): number {
    const { state, clock } = this.#options
    const { spec } = instance
    const now = clock.monotonicMs()
    if (!spec.shared || !this.#isNew(instance)) return now
    const ready = state.nodes.cache.list().filter((node) => node.ready)
    const withAgent = ready.filter(
      ({ metadata }) => state.reportIndex.presence(metadata.name as NodeName) === 'present',
    )
    // Agents of the existing system do not report.
    const nodes = withAgent.length || ready.length
    // Every node has a broker, or has joined.
    if (spec.capacity >= nodes || spec.nodes.length >= nodes) return now
    const waitMs = Math.min(MAX_CHOICE_MS, CHOICE_MS + CHOICE_PER_NODE_MS * nodes)
    return this.#firstSeenAt(instance) + waitMs
  }

  /** A Pod that disappears without an end must not be created again in a hot loop. */
  #recordCreation(key: ObjectKey, node: NodeName): void {
    const now = this.#options.clock.monotonicMs()
    const { creations, createdAt } = this.#historyOf(key, node)
    const life = { restarts: creations, refused: false, ranMs: now - createdAt }
    const next = restart(life, `${key} ${node}`)
    this.#record(key, node, {
      ...NO_HISTORY,
      notBefore: now + next.waitMs,
      creations: next.restarts,
      createdAt: now,
    })
  }

  /** An Instance that appears in this turn is new from its first sight on. */
  #isNew(instance: Instance): boolean {
    const ageMs = this.#options.clock.monotonicMs() - this.#firstSeenAt(instance)
    return !this.#inherited.has(instance.metadata.uid) && ageMs <= NEW_MS
  }

  #firstSeenAt(instance: Instance): number {
    const { uid } = instance.metadata
    const key = keyOf(instance)
    const firstSight = this.#seenAt.get(key)
    const at = firstSight?.uid === uid ? firstSight.at : this.#options.clock.monotonicMs()
    this.#seenAt.set(key, { uid, at })
    return at
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
  /** When the broker may be created again, by `monotonicMs`. */
  readonly notBefore: number
  /** How often in a row the broker was created and then deleted soon. */
  readonly creations: number
  /** The last creation, by `monotonicMs`. */
  readonly createdAt: number
  /** When the last broker was removed, if the node had no room for it, by `monotonicMs`. */
  readonly hadNoRoomAt: number | undefined
}

const NO_HISTORY: BrokerHistory = {
  restarts: 0,
  notBefore: 0,
  creations: 0,
  createdAt: 0,
  hadNoRoomAt: undefined,
}

/** Writes to an object, unless the object has gone or another object has its name. */
async function unlessReplaced(write: () => Promise<unknown>): Promise<void> {
  try {
    await write()
  } catch (error) {
    if (!ApiError.is(error, 404) && !ApiError.is(error, 409)) throw error
  }
}
