import type { DeviceProblem, FoundProblem, InstanceName } from '@akrijs/api'
import { keyParts, type ObjectKey } from '@akrijs/kube/objects'
import type { DeviceReport } from '@akrijs/runtime/handler'
import type { DeviceSet } from '../discovery/device-set.js'
import type { PlannedInstance } from '../instances/instance-plan.js'
import { unhealthyIn } from './node-status.js'

/** An Instance that a node serves, with its device. */
export type ServedDevice = Pick<PlannedInstance, 'key' | 'device' | 'existing'>

/** The problem of each device that its handler reports, by its Instance. */
export type ProblemsByInstance = ReadonlyMap<ObjectKey, string>

/** A problem that no handler reports. */
interface Finding {
  readonly reason: string
  readonly found: FoundProblem
}
export type FindingsByInstance = ReadonlyMap<InstanceName, Finding>

/**
 * The most Instances with a finding in a report: of a handler with thousands of devices, all are
 * lost at once.
 */
export const MAX_FINDINGS = 100

/** @param served only asked if there is a problem */
export function problemsByInstance(
  reports: readonly DeviceReport[],
  served: () => Iterable<ServedDevice>,
): ProblemsByInstance {
  const problems = new Map(
    reports.flatMap(({ listed, ids, reason }) =>
      listed ? ids.map((id) => [id, reason] as const) : [],
    ),
  )
  const found = new Map<ObjectKey, string>()
  if (problems.size === 0) return found
  for (const { key, device } of served()) {
    const problem = problems.get(device.id)
    if (problem !== undefined) found.set(key, problem)
  }
  return found
}

const HANDLER_LOST: Finding = {
  found: 'HandlerLost',
  reason: 'no handler vouches for the device, and no Pod gets it',
}
const DEVICE_LOST: Finding = {
  found: 'DeviceLost',
  reason: 'the node no longer finds the device, and Pods there have it',
}

/**
 * What the kubelet has as unhealthy: devices that are not offered, and devices that are gone while
 * Pods have them. The same of too many findings each time.
 * @param lost the Instances of such devices
 */
export function findings(
  set: DeviceSet,
  served: () => Iterable<ServedDevice>,
  lost: Iterable<InstanceName>,
): FindingsByInstance {
  const found: [InstanceName, Finding][] = [...lost].map((name) => [name, DEVICE_LOST])
  if (unhealthyIn(set) > 0)
    for (const { key, device } of served()) {
      const { healthy = true, refusal } = set.devices.get(device.id) ?? {}
      if (healthy) continue
      const refused = {
        found: 'DeviceRefused',
        reason: `no Pod gets the device: ${refusal}`,
      } as const
      found.push([
        keyParts(key).name as InstanceName,
        refusal === undefined ? HANDLER_LOST : refused,
      ])
    }
  return new Map(found.sort(([a], [b]) => (a < b ? -1 : 1)).slice(0, MAX_FINDINGS))
}

/**
 * The problems as the node reports them: in the same order for the same problems, and one of each
 * Instance.
 */
export function deviceProblems(
  problems: ProblemsByInstance,
  findings: FindingsByInstance = new Map(),
): readonly DeviceProblem[] {
  const all = new Map<InstanceName, Omit<DeviceProblem, 'instances'>>(
    [...problems].map(([key, reason]) => [keyParts(key).name as InstanceName, { reason }]),
  )
  for (const [name, finding] of findings) all.set(name, finding)
  const grouped = new Map<string, { readonly reason: string; instances: InstanceName[] }>()
  for (const [name, problem] of all) {
    const group = `${problem.found ?? ''} ${problem.reason}`
    const problemOfGroup = grouped.get(group) ?? { ...problem, instances: [] }
    grouped.set(group, problemOfGroup)
    problemOfGroup.instances.push(name)
  }
  return [...grouped]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([, problem]) => ({ ...problem, instances: problem.instances.sort() }))
}
