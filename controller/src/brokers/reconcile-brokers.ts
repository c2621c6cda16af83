import type {
  BrokerSpec,
  Configuration,
  Instance,
  RollingUpdate,
  UpdateStrategy,
} from '@akrijs/api'
import {
  ApiError,
  keyOf,
  type NodeName,
  type ObjectKey,
  objectKey,
  type RecheckAfter,
} from '@akrijs/kube'
import type { Collection } from '../collection.js'
import { BrokerHeldError } from '../errors.js'
import { isDeleted, type Job, type Pod } from '../kubernetes-objects.js'
import { ANNOTATIONS, specHash, specHashOf } from '../labels.js'
import { isOwned } from '../owners.js'
import type { Term } from '../term.js'
import { type BrokerHistory, historyOf, historyText, JOB } from './broker-history.js'
import { heldAt, isEnded } from './broker-state.js'
import { brokerJob, brokerPod, jobName, podName } from './broker-template.js'
import { planJob } from './job-plan.js'
import { type NodeObstacle, nodeObstacleOf } from './node-fit.js'
import { type PodPlan, planPods, withUpdate } from './pod-plan.js'

/**
 * Brings the broker Pods of an Instance, or its Job, to what its Configuration specifies: a plan
 * from the caches, and its steps. The key is that of an Instance: a broker that is refused has a
 * back-off, an Event and a condition of its own.
 */
export async function reconcileBrokers(
  key: ObjectKey,
  term: Term,
  signal: AbortSignal,
  recheckAfter: RecheckAfter,
): Promise<void> {
  const { state, clock } = term
  // After a request without an answer, or a change of the leader, such a Pod may be gone, whatever
  // the cache has. Before all other reads: the spec can change meanwhile.
  for (const pod of announcedPods(key, term)) await state.pods.refresh(pod, signal)
  const instance = state.instances.cache.get(key)
  const configuration = instance && state.ownerOf(instance)
  if (instance === undefined || configuration === undefined) {
    // The garbage collector deletes what a deleted Instance owned, and an Instance without its
    // Configuration.
    term.rollouts.forget(key)
    return
  }
  const recheckAt = (time: number | undefined) => recheckAfter(time && time - clock.monotonicMs())
  const pass = { ...term, instance, configuration, recheckAt, signal }
  await reconcilePods(pass)
  await reconcileJob(pass)
}

interface Pass extends Term {
  readonly instance: Instance
  readonly configuration: Configuration
  /** When time alone changes a plan, by `monotonicMs`: called before the first step can fail. */
  recheckAt(time: number | undefined): void
  readonly signal: AbortSignal
}

async function reconcilePods(pass: Pass): Promise<void> {
  const { instance, configuration, rollouts, state, log, signal } = pass
  const template = podTemplateOf(state.workloadSpec(configuration).brokerSpec)
  const { spec, hash, maxUnavailable } = template
  const { uid, namespace } = instance.metadata
  const found = planInstance(instance, template, pass)
  const isPermitted =
    !isDeleted(configuration) &&
    rollouts.permits(keyOf(instance), keyOf(configuration), found, maxUnavailable)
  const plan = isPermitted ? withUpdate(found) : found
  pass.recheckAt(plan.recheckAt)
  await recordHistory(plan.history, pass)
  for (const pod of plan.adopt)
    await annotate(state.pods, pod, { [ANNOTATIONS.specHash]: hash ?? '' }, pass)
  for (const { pod, reason } of plan.remove) {
    log.info({ pod: pod.metadata.name, reason }, 'broker removed')
    // The kubelet has nothing left to stop in an ended Pod.
    await state.pods.remove(pod, { ...(isEnded(pod) ? { gracePeriodSeconds: 0 } : {}), signal })
    sightLast(instance, pod.targetNode, undefined, pass)
  }
  for (const { node, restarts } of plan.create) {
    const creation = {
      namespace,
      name: podName(instance, node),
      // Names of two nodes can give the same name of a Pod.
      purpose: `${uid} ${node}`,
      make: (name: string) => brokerPod({ instance, node, spec, hash: hash ?? '', restarts }, name),
      isSame: (pod: Pod) => isOwned(pod, 'Instance', instance) && pod.targetNode === node,
    }
    if (!(await state.pods.create(creation, signal))) continue
    const created = state.pods
      .ownedBy('Instance', instance)
      .find(({ targetNode }) => targetNode === node)
    sightLast(instance, node, created, pass)
    if (restarts > 0) pass.metrics?.brokerRestarted(configuration.metadata.name)
    log.info({ instance: instance.metadata.name, node, restarts }, 'broker created')
  }
}

/** The Pods of an earlier spec that are there, and whose deletion the Instance announces. */
function announcedPods(key: ObjectKey, { state }: Term): Pod[] {
  const instance = state.instances.cache.get(key)
  const configuration = instance && state.ownerOf(instance)
  if (instance === undefined || configuration === undefined) return []
  const { hash, strategy } = podTemplateOf(state.workloadSpec(configuration).brokerSpec)
  if (strategy === 'OnDelete') return []
  return state.pods.ownedBy('Instance', instance).filter((pod) => {
    const { metadata, targetNode = '' } = pod
    if (isDeleted(pod) || [undefined, hash].includes(specHashOf(pod))) return false
    return historyOf(instance).left[targetNode]?.uid === metadata.uid
  })
}

async function reconcileJob(pass: Pass): Promise<void> {
  const { instance, configuration, state, clock, log, sights, instanceStatus, signal } = pass
  const { brokerSpec } = state.workloadSpec(configuration)
  const spec = brokerSpec && 'brokerJobSpec' in brokerSpec ? brokerSpec.brokerJobSpec : undefined
  const hash = (spec && specHash(spec)) ?? ''
  const { uid, namespace, name: instanceName } = instance.metadata
  const jobs = state.jobs.ownedBy('Instance', instance)
  if (spec === undefined && jobs.length === 0) return
  const plan = planJob({
    instance,
    specHash: spec && hash,
    strategy: brokerSpec?.updateStrategy?.type ?? 'RollingUpdate',
    jobs,
    podsOf: (job) => state.pods.ownedBy('Job', job),
    knownForMs: sights.ageMs(`Job of ${uid}`, historyOf(instance).left[JOB]?.uid ?? ''),
    now: clock.monotonicMs(),
  })
  pass.recheckAt(plan.recheckAt)
  await recordHistory(plan.history, pass)
  if (plan.record !== undefined) {
    const patch = { metadata: { uid }, status: { brokerJob: plan.record } }
    await instanceStatus.write(instance, patch, signal)
  }
  if (plan.adopt) await annotate(state.jobs, plan.adopt, { [ANNOTATIONS.specHash]: hash }, pass)
  for (const job of plan.remove ?? []) {
    log.info({ job: job.metadata.name, reason: plan.reason }, 'broker removed')
    // The Job stays until its Pods, which use the device, have gone.
    await state.jobs.remove(job, { propagationPolicy: 'Foreground', signal })
  }
  if (plan.create === undefined || (await isJobRecorded(hash, pass))) return
  const { restarts } = plan.create
  const creation = {
    namespace,
    name: jobName(instance, configuration),
    purpose: uid,
    make: (name: string) => brokerJob({ instance, spec: spec ?? {}, hash, restarts }, name),
    // A Job that the plan knows is an old one whose deletion is held.
    isSame: (job: Job) =>
      isOwned(job, 'Instance', instance) &&
      !jobs.some(({ metadata }) => metadata.uid === job.metadata.uid),
  }
  if (await state.jobs.create(creation, signal))
    log.info({ instance: instanceName, restarts }, 'job created')
}

/**
 * Whether a Job of this spec was created already. Asks the API server: another replica may have
 * created the Job, and the Job may have gone, before the watch reported either. A write that
 * changes nothing also fails if no record of a new Job could be written: without a record, the
 * Job would run again after its deletion.
 */
async function isJobRecorded(hash: string, pass: Pass): Promise<boolean> {
  const { uid } = pass.instance.metadata
  const current = await pass.instanceStatus.write(pass.instance, { metadata: { uid } }, pass.signal)
  return current === undefined || current.status?.brokerJob?.specHash === hash
}

/** Writes the history, before anything that it is about happens. */
async function recordHistory(history: BrokerHistory, pass: Pass): Promise<void> {
  const { instance, state } = pass
  const text = historyText(history)
  if (text !== historyText(historyOf(instance)))
    await annotate(state.instances, instance, { [ANNOTATIONS.brokers]: text }, pass)
}

/** Writes annotations, unless the object has gone or another object has its name. */
async function annotate<T extends Pod | Job | Instance>(
  { cache, api }: Collection<T>,
  { metadata }: T,
  annotations: Readonly<Record<string, string | null>>,
  { signal }: Pass,
): Promise<void> {
  const patch = { metadata: { uid: metadata.uid, annotations } }
  try {
    cache.observe(await api.patch(keyOf({ metadata }), 'merge', patch, { signal }))
  } catch (error) {
    if (!ApiError.is(error, 404) && !ApiError.is(error, 409)) throw error
  }
}

/** The Pods that a Configuration specifies, and how they are updated. */
export interface PodTemplate {
  readonly spec: Readonly<Record<string, unknown>>
  /** The hash of the spec; undefined if no Pod is specified. */
  readonly hash: string | undefined
  /** What keeps a new Pod from a node. */
  readonly obstacleOn: NodeObstacle
  readonly strategy: UpdateStrategy
  readonly maxUnavailable: RollingUpdate['maxUnavailable']
}

/** A spec can have 1.5 MB, and each look at each Instance needs its template. */
const templates = new WeakMap<BrokerSpec, PodTemplate>()

export function podTemplateOf(brokerSpec: BrokerSpec | undefined): PodTemplate {
  const template = (brokerSpec && templates.get(brokerSpec)) ?? templateOf(brokerSpec)
  if (brokerSpec !== undefined) templates.set(brokerSpec, template)
  return template
}

function templateOf(brokerSpec: BrokerSpec | undefined): PodTemplate {
  const isPod = brokerSpec !== undefined && 'brokerPodSpec' in brokerSpec
  const spec = isPod ? brokerSpec.brokerPodSpec : {}
  const { type = 'RollingUpdate', rollingUpdate } = brokerSpec?.updateStrategy ?? {}
  return {
    spec,
    hash: isPod ? specHash(spec) : undefined,
    obstacleOn: nodeObstacleOf(spec),
    strategy: type,
    maxUnavailable: rollingUpdate?.maxUnavailable,
  }
}

/**
 * How long the first broker of an Instance waits for nodes to join, in milliseconds, unless all
 * nodes have: agents write at moments that are spread over a time that grows with the number of
 * nodes.
 */
const CHOICE_MS = 2000
const CHOICE_PER_NODE_MS = 20
const MAX_CHOICE_MS = 4000

/** In place of the uid of the last Pod of a node: the controller itself has removed it. */
const REMOVED = ''

/** The plan for the Pods of an Instance, from the caches. */
function planInstance(
  instance: Instance,
  { hash, obstacleOn, strategy }: PodTemplate,
  term: Term,
): PodPlan {
  const { state, clock, sights } = term
  const pods = state.pods.ownedBy('Instance', instance)
  for (const pod of pods) if (!isDeleted(pod)) sightLast(instance, pod.targetNode, pod, term)
  return planPods({
    instance,
    specHash: hash,
    strategy,
    pods,
    isUsable: (node) => obstacleOn(state.nodes.cache.get(objectKey('', node))) === undefined,
    isAway: (node) => !state.isReady(node),
    lastOn: (node) => {
      const last = sights.last(placeOf(instance, node))
      return last && last.fact !== REMOVED ? { uid: last.fact, ageMs: last.ageMs } : undefined
    },
    choiceAt: choiceAt(instance, term),
    now: clock.monotonicMs(),
  })
}

/**
 * Dates the last Pod of a node: after another client has deleted it, nothing else shows its age.
 * @param pod the Pod that is there; undefined after the controller itself has removed it
 */
function sightLast(
  instance: Instance,
  node: NodeName | undefined,
  pod: Pod | undefined,
  { sights }: Term,
): void {
  if (node !== undefined) sights.ageMs(placeOf(instance, node), pod?.metadata.uid ?? REMOVED)
}

const placeOf = ({ metadata: { uid } }: Instance, node: NodeName) => `broker of ${uid} on ${node}`

/**
 * When the nodes of an Instance are known well enough to choose among them, by `monotonicMs`.
 * Otherwise all brokers would run on the node that is the quickest.
 */
function choiceAt(instance: Instance, { state, clock, sights }: Term): number {
  const { metadata, spec } = instance
  const now = clock.monotonicMs()
  if (!spec.shared) return now
  const ageMs = sights.ageMs(`Instance ${keyOf(instance)}`, metadata.uid)
  const ready = state.nodes.cache.list().filter((node) => node.ready)
  const withAgent = ready.filter(
    (node) => state.reportIndex.presence(node.metadata.name as NodeName) === 'present',
  )
  // Agents of the existing system do not report.
  const nodes = withAgent.length || ready.length
  // Every node has a broker, or has joined.
  if (spec.capacity >= nodes || spec.nodes.length >= nodes) return now
  const waitMs = Math.min(MAX_CHOICE_MS, CHOICE_MS + CHOICE_PER_NODE_MS * nodes)
  return now + waitMs - ageMs
}

/** The most brokers that an error names. */
const MAX_NAMED = 5

/** @throws BrokerHeldError if the deletion of a broker of the Instance is held */
export async function reportHeldBrokers(
  key: ObjectKey,
  { state, clock }: Term,
  _signal: AbortSignal,
  recheckAfter: RecheckAfter,
): Promise<void> {
  const instance = state.instances.cache.get(key)
  if (instance === undefined) return
  const now = clock.monotonicMs()
  const texts: string[] = []
  for (const kind of ['Pod', 'Job'] as const)
    for (const broker of state[kind === 'Pod' ? 'pods' : 'jobs'].ownedBy('Instance', instance)) {
      const leftMs = (heldAt(broker) ?? Infinity) - now
      if (leftMs <= 0) texts.push(describe(kind, broker))
      else recheckAfter(leftMs)
    }
  if (texts.length > 0) throw new BrokerHeldError(texts.slice(0, MAX_NAMED).join('; '))
}

function describe(kind: string, { metadata }: Pod | Job): string {
  const { deletionTimestamp, finalizers = [] } = metadata
  return (
    `${kind} ${keyOf({ metadata })} has been waiting for its deletion since ` +
    `${deletionTimestamp}: find out what its finalizers ${finalizers.join(', ')} wait for, or ` +
    'remove them'
  )
}
