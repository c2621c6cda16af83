import { isDeepStrictEqual } from 'node:util'
import {
  type DeviceProblem,
  type Instance,
  type InstanceName,
  type InstanceProblem,
  instanceConditions,
} from '@akrijs/api'
import type { NodeName, ObjectKey, RecheckAfter } from '@akrijs/kube'
import type { ClusterState, StoredConfiguration } from '../cluster-state.js'
import { Failures } from '../errors.js'
import type { Term } from '../term.js'

/** The most writes for one Configuration in a turn: a handler can report new problems for ever. */
const MAX_WRITES = 20
/** When the rest is written, in milliseconds. */
const REST_MS = 2000

/** The problems of devices that each node reports. */
type Problems = ReadonlyMap<InstanceName, ReadonlyMap<NodeName, Problem>>
type Problem = Pick<DeviceProblem, 'reason' | 'found'>

/**
 * Writes the condition `DeviceProblem` of Instances from the reports of nodes: one writer. All
 * nodes that see a device have the problem that its handler reports; what agents find out can
 * differ. The first of these nodes is quoted.
 * @param key of a Configuration
 */
export async function reconcileInstanceProblems(
  key: ObjectKey,
  { state, clock, instanceStatus }: Term,
  signal: AbortSignal,
  recheckAfter: RecheckAfter,
): Promise<void> {
  const configuration = state.configurations.cache.get(key)
  // Before all reports are known, the absence of a problem means nothing.
  if (configuration === undefined || !state.hasReports) return
  const problems = problemsOf(key, configuration, state)
  const now = new Date(clock.wallMs()).toISOString()
  const changes = state.ownInstancesOf(key, configuration).flatMap((instance) => {
    const before = instance.status?.conditions ?? []
    const conditions = instanceConditions(before, problemOf(instance, problems), now)
    return isDeepStrictEqual(before, conditions) ? [] : { instance, conditions }
  })
  if (changes.length > MAX_WRITES) recheckAfter(REST_MS)
  const failures = new Failures()
  let written = 0
  for (const { instance, conditions } of changes) {
    if (written === MAX_WRITES) return
    const { uid, resourceVersion } = instance.metadata
    // A list is written as a whole, and another program may change its conditions meanwhile.
    const isAlone = conditions.length === 1
    const change = { metadata: isAlone ? { uid } : { resourceVersion }, status: { conditions } }
    const writing = instanceStatus.write(instance, change, signal).then(() => true)
    if (await failures.of(writing)) written++
  }
  failures.throwFirst()
}

function problemsOf(
  key: ObjectKey,
  { metadata: { uid } }: StoredConfiguration,
  { reportIndex }: ClusterState,
): Problems {
  const problems = new Map<InstanceName, Map<NodeName, Problem>>()
  for (const { report, presence } of reportIndex.of(key)) {
    const reported = report.configurations[key]
    // The report of an agent that is exchanged stays true until the new agent has looked.
    if (presence === 'deleted' || reported?.uid !== uid) continue
    for (const { instances, ...problem } of reported.deviceProblems ?? [])
      for (const name of instances) {
        const ofInstance = problems.get(name) ?? new Map<NodeName, Problem>()
        problems.set(name, ofInstance.set(report.metadata.name, problem))
      }
  }
  return problems
}

/**
 * A node that does not see the device says nothing about it, except that its Pods have lost it: any
 * node could join a shared Instance. The message does not change with each node that has the
 * problem, because each write wakes all agents.
 */
export function problemOf(
  { metadata, spec }: Instance,
  problems: Problems,
): InstanceProblem | undefined {
  const byNode = problems.get(metadata.name)
  if (byNode === undefined) return undefined
  const seeing = spec.nodes.filter((node) => byNode.has(node))
  const others = [...byNode.keys()].filter((node) => !spec.nodes.includes(node)).sort()
  const hasLost = (node: NodeName) => spec.shared && byNode.get(node)?.found === 'DeviceLost'
  const left = others.filter(hasLost)
  const [first] = [...seeing, ...left]
  const problem = first === undefined ? undefined : byNode.get(first)
  if (problem === undefined) return undefined
  const { found, reason } = problem
  if (found === undefined) return { reason: 'ReportedByHandler', message: reason }
  const same = [...seeing, ...left].filter((node) => byNode.get(node)?.found === found)
  const isAll = same.length > 1 && spec.nodes.every((node) => byNode.get(node)?.found === found)
  const where = isAll ? 'all nodes' : same.length > 1 ? `${first} and others` : first
  return { reason: found, message: `${where}: ${reason}` }
}
