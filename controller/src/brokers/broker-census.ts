import type { Configuration, Instance } from '@akrijs/api'
import { keyOf, objectKey } from '@akrijs/kube'
import type { ClusterState } from '../cluster-state.js'
import { isDeleted, type Job, type Pod } from '../kubernetes-objects.js'
import { specHash, specHashOf } from '../labels.js'
import type { Term } from '../term.js'
import { isOf } from './applied-objects.js'
import { historyOf, replacedBy } from './broker-history.js'
import { type BrokerProblem, noUsableNode, refusal } from './broker-problem.js'
import { isEnded, problemAt } from './broker-state.js'
import { deploymentName } from './broker-template.js'
import { type PodTemplate, podTemplateOf } from './reconcile-brokers.js'

/** The brokers of a Configuration: those that it should have, and those that work. */
export interface BrokerCensus {
  /** What is counted, in the plural. */
  readonly what: string
  readonly desired: number
  /** Those that are made from the present spec. */
  readonly updated: number
  readonly ready: number
  readonly problems: readonly BrokerProblem[]
  /** Jobs without Pods. @default none */
  readonly idleJobs?: readonly Job[]
  /** The replacement of Pods of an earlier spec. Undefined if there are none. */
  readonly rollout: BrokerRollout | undefined
}

interface BrokerRollout {
  readonly isStuck: boolean
  /** When time alone makes it stuck, in milliseconds. */
  readonly recheckInMs?: number | undefined
  /** The first new Pod that does not work. */
  readonly waitsFor: string | undefined
}

/**
 * @param instances those that the Configuration owns
 * @returns undefined for a Configuration without brokers
 */
export function brokerCensus(
  configuration: Configuration,
  instances: readonly Instance[],
  term: Term,
): BrokerCensus | undefined {
  const { state, clock } = term
  const now = clock.monotonicMs()
  const { brokerSpec } = state.workloadSpec(configuration)
  if (brokerSpec === undefined || isDeleted(configuration)) return undefined
  if ('brokerDeploymentSpec' in brokerSpec) return ofDeployment(configuration, term)
  const present = instances.filter((instance) => !isDeleted(instance))
  const failures = present.flatMap(
    (instance) => term.failures.of('Instance', keyOf(instance)) ?? [],
  )
  if ('brokerPodSpec' in brokerSpec) {
    const template = podTemplateOf(brokerSpec)
    const counts = present.map((instance) => ofPods(instance, template, state, now))
    const census = sum('broker Pods', counts, failures)
    const hasOutdated = counts.some(({ outdated }) => outdated > 0)
    if (template.strategy === 'OnDelete' || !hasOutdated) return census
    const { isBlocked, missing, slowInMs } = term.rollouts.of(keyOf(configuration))
    const broken = counts.reduce((before, { broken: more }) => before + more, failures.length)
    const isStuck = slowInMs === 0 || (isBlocked && broken >= missing)
    const [waitsFor] = counts.flatMap(({ unready }) => unready).sort()
    return { ...census, rollout: { isStuck, waitsFor, recheckInMs: slowInMs || undefined } }
  }
  const hash = specHash(brokerSpec.brokerJobSpec)
  const counts = present.map((instance) => ofJob(instance, hash, state, now))
  return sum('broker Jobs', counts, failures)
}

type Count = Omit<BrokerCensus, 'what' | 'rollout'>

interface PodCount extends Count {
  /** Those that are made from an earlier spec. */
  readonly outdated: number
  /** The names of new Pods that are not ready, and that a roll-out waits for. */
  readonly unready: readonly string[]
  /** How many of these have a problem. */
  readonly broken: number
}

function ofPods(
  instance: Instance,
  { obstacleOn, hash }: PodTemplate,
  { pods, nodes }: ClusterState,
  now: number,
): PodCount {
  const present = pods.ownedBy('Instance', instance).filter((pod) => !isDeleted(pod))
  const living = new Set(present.filter((pod) => !isEnded(pod)).map(({ targetNode }) => targetNode))
  const obstacles = [...new Set(instance.spec.nodes)].sort().map((node) => ({
    node,
    obstacle: living.has(node) ? undefined : obstacleOn(nodes.cache.get(objectKey('', node))),
  }))
  const places = obstacles.filter(({ obstacle }) => obstacle === undefined).length
  const [first] = places > 0 ? [] : obstacles
  // A broker that no node can run is missing.
  const desired = Math.min(instance.spec.capacity, first === undefined ? places : 1)
  const isUpdated = (pod: Pod) => [undefined, hash].includes(specHashOf(pod))
  const updated = present.filter(isUpdated)
  const history = historyOf(instance)
  const unready = updated.filter((pod) => !pod.ready && replacedBy(history, pod) !== 'broken')
  return {
    desired,
    updated: Math.min(desired, updated.filter((pod) => !isEnded(pod)).length),
    outdated: present.length - updated.length,
    unready: unready.map(({ metadata }) => metadata.name),
    // A new Pod has no room for a moment: the device of the old Pod is not yet free.
    broken: unready.filter(({ problem }) => problem && problem.reason !== 'Unschedulable').length,
    ready: Math.min(desired, present.filter(({ ready }) => ready).length),
    problems: [
      ...present.flatMap((pod) => problemAt(pod, now) ?? []),
      ...(first === undefined ? [] : [noUsableNode(instance, first, obstacles.length)]),
    ],
  }
}

function ofJob(instance: Instance, hash: string, { jobs, pods }: ClusterState, now: number): Count {
  const present = jobs.ownedBy('Instance', instance).filter((job) => !isDeleted(job))
  const current = present.find((candidate) => specHashOf(candidate) === hash)
  const job = current ?? present[0]
  const wasCreated = instance.status?.brokerJob?.specHash === hash
  const count = (ready: boolean, ...problems: BrokerProblem[]): Count => ({
    desired: 1,
    updated: current !== undefined || wasCreated ? 1 : 0,
    ready: ready ? 1 : 0,
    problems,
  })
  // A person may have deleted the Job after its end.
  if (job === undefined) return count(wasCreated)
  const { name } = job.metadata
  if (job.outcome === 'failed')
    return count(false, { reason: 'JobFailed', message: `Job ${name}: ${job.failure}` })
  const podsOfJob = pods.ownedBy('Job', job)
  const works = ({ ready, phase }: Pod) => ready || phase === 'Succeeded'
  if (job.outcome === 'complete' || podsOfJob.some(works)) return count(true)
  const problems = podsOfJob.flatMap((pod) => (isDeleted(pod) ? [] : (problemAt(pod, now) ?? [])))
  const isIdle = job.lacksPods && podsOfJob.every(isEnded)
  return { ...count(false, ...problems), ...(isIdle && { idleJobs: [job] }) }
}

const NO_DEPLOYMENT = { isObserved: true, desired: 1, updated: 0, ready: 0, refusal: undefined }

function ofDeployment(
  configuration: Configuration,
  { state, failures, clock }: Term,
): BrokerCensus {
  const key = keyOf(configuration)
  const name = deploymentName(configuration)
  const found = state.deployments.named(name, configuration)
  const failure = failures.of('Configuration', key)
  const { isObserved, desired, updated, ready, refusal: sentence } = found ?? NO_DEPLOYMENT
  const pods = found
    ? state.pods
        .labelled('Configuration', key)
        .filter((pod) => isOf(pod, name) && !isDeleted(pod) && !isEnded(pod))
    : []
  return {
    what: 'Pods of the Deployment',
    // Its ready Pods may be of the template before.
    rollout: isObserved || ready === 0 ? undefined : { isStuck: false, waitsFor: undefined },
    desired,
    updated: Math.min(desired, updated),
    ready: Math.min(desired, ready),
    problems: [
      ...(failure === undefined ? [] : [failure]),
      ...(sentence === undefined ? [] : [refusal(sentence)]),
      ...pods.flatMap((pod) => problemAt(pod, clock.monotonicMs()) ?? []),
    ],
  }
}

function sum(
  what: string,
  counts: readonly Count[],
  failures: readonly BrokerProblem[],
): BrokerCensus {
  const total = (number: (count: Count) => number) =>
    counts.reduce((before, count) => before + number(count), 0)
  return {
    what,
    rollout: undefined,
    desired: total(({ desired }) => desired),
    updated: total(({ updated }) => updated),
    ready: total(({ ready }) => ready),
    problems: [...failures, ...counts.flatMap(({ problems }) => problems)],
    idleJobs: counts.flatMap(({ idleJobs = [] }) => idleJobs),
  }
}
