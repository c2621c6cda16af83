import type { Configuration, Instance } from '@akrijs/api'
import { ApiError, keyOf, type ObjectKey, type RecheckAfter } from '@akrijs/kube'
import type { Collection } from '../collection.js'
import { isDeleted, type Job, type Pod } from '../kubernetes-objects.js'
import { ANNOTATIONS, specHash, specHashOf } from '../labels.js'
import { isOwned } from '../owners.js'
import type { Term } from '../term.js'
import { type BrokerHistory, historyOf, historyText, JOB } from './broker-history.js'
import { isEnded } from './broker-state.js'
import { brokerJob, brokerPod, jobName, podName } from './broker-template.js'
import { planInstance, podTemplateOf, sightLast } from './instance-plan.js'
import { planJob } from './job-plan.js'
import { withUpdate } from './pod-plan.js'

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
  const { instance, configuration, rollouts, state, log, sights, signal } = pass
  const template = podTemplateOf(state.workloadSpec(configuration))
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
    sightLast(instance, pod.targetNode, undefined, sights)
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
    sightLast(instance, node, created, sights)
    if (restarts > 0) pass.metrics?.brokerRestarted(configuration.metadata.name)
    log.info({ instance: instance.metadata.name, node, restarts }, 'broker created')
  }
}

/** The Pods of an earlier spec that are there, and whose deletion the Instance announces. */
function announcedPods(key: ObjectKey, { state }: Term): Pod[] {
  const instance = state.instances.cache.get(key)
  const configuration = instance && state.ownerOf(instance)
  if (instance === undefined || configuration === undefined) return []
  const { hash, strategy } = podTemplateOf(state.workloadSpec(configuration))
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
