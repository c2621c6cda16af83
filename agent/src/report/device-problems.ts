import type { DeviceProblem, FoundProblem, InstanceName } from '@akrijs/api'
import type { DeviceReport } from '@akrijs/sdk/handler'
import type { DeviceSet } from '../discovery/device-set.js'
import type { PlannedInstance } from '../instances/instance-plan.js'

/** An Instance that a node serves, with its device. */
export interface ServedDevice extends Pick<PlannedInstance, 'key' | 'name' | 'existing'> {
  readonly device: Pick<PlannedInstance['device'], 'id'>
}

/** The problem of each device that its handler reports, by its Instance. */
export type ProblemsByInstance = ReadonlyMap<InstanceName, string>

/** A problem, and who found it if no handler reports it. */
interface Problem {
  readonly reason: string
  readonly found?: FoundProblem
}
type FindingsByInstance = ReadonlyMap<InstanceName, Problem>

/**
 * The most Instances with a finding in a report: of a handler with thousands of devices, all are
 * lost at once.
 */
export const MAX_FINDINGS = 100

export function problemsByInstance(
  reports: readonly DeviceReport[],
  served: Iterable<ServedDevice>,
): ProblemsByInstance {
  const problems = new Map<string, string>()
  for (const { listed, ids, reason } of reports)
    if (listed) for (const id of ids) problems.set(id, reason)
  const found = new Map<InstanceName, string>()
  for (const { name, device } of served) {
    const problem = problems.get(device.id)
    if (problem !== undefined) found.set(name, problem)
  }
  return found
}

const HANDLER_LOST: Problem = {
  found: 'HandlerLost',
  reason: 'no handler vouches for the device, and no Pod gets it',
}
const DEVICE_LOST: Problem = {
  found: 'DeviceLost',
  reason: 'the node no longer finds the device, and Pods there have it',
}

/**
 * What the kubelet has as unhealthy: devices that are not offered, and devices that are gone while
 * Pods have them. The same of too many findings each time.
 * @param lost the Instances of such devices
 */
export function findings(
  { devices }: DeviceSet,
  served: Iterable<ServedDevice>,
  lost: Iterable<InstanceName>,
): FindingsByInstance {
  const found = new Map([...lost].map((name) => [name, DEVICE_LOST]))
  for (const { name, device } of served) {
    const { healthy = true, refusal } = devices.get(device.id) ?? {}
    if (healthy) continue
    const refused = {
      found: 'DeviceRefused',
      reason: `no Pod gets the device: ${refusal}`,
    } as const
    found.set(name, refusal === undefined ? HANDLER_LOST : refused)
  }
  return new Map([...found].sort(([a], [b]) => (a < b ? -1 : 1)).slice(0, MAX_FINDINGS))
}

/** The problems as the node reports them: in order, and one of each Instance. */
export function deviceProblems(
  problems: ProblemsByInstance,
  findings: FindingsByInstance = new Map(),
): readonly DeviceProblem[] {
  const reported = [...problems].map(([name, reason]) => [name, { reason }] as const)
  const grouped = new Map<string, Problem & { instances: InstanceName[] }>()
  for (const [name, problem] of new Map<InstanceName, Problem>([...reported, ...findings])) {
    const group = `${problem.found ?? ''} ${problem.reason}`
    const before = grouped.get(group)?.instances ?? []
    grouped.set(group, { ...problem, instances: [...before, name] })
  }
  return [...grouped]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([, problem]) => ({ ...problem, instances: problem.instances.sort() }))
}
