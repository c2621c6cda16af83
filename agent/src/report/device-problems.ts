import type { DeviceProblem, InstanceName } from '@akrijs/api'
import { objectMessage } from '@akrijs/runtime'
import type { DeviceReport } from '@akrijs/sdk/handler'
import type { DeviceSet } from '../discovery/device-set.js'
import type { PlannedInstance } from '../instances/instance-plan.js'

export type Problem = Omit<DeviceProblem, 'instances'>
export type Problems = ReadonlyMap<InstanceName, Problem>

/**
 * The most Instances with a finding in a report: of a handler with thousands of devices, all are
 * lost at once.
 */
export const MAX_FINDINGS = 100

/** The problem of each served device that its handler reports, as a cluster stores it. */
export function reportedProblems(
  reports: readonly DeviceReport[] | undefined,
  served: Iterable<PlannedInstance>,
): Problems {
  const byId = new Map<string, Problem>()
  for (const { listed, ids, reason } of reports ?? [])
    if (listed) for (const id of ids) byId.set(id, { reason: objectMessage(reason) })
  const problems = new Map<InstanceName, Problem>()
  if (byId.size === 0) return problems
  for (const { name, device } of served) {
    const problem = byId.get(device.id)
    if (problem !== undefined) problems.set(name, problem)
  }
  return problems
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
  served: Iterable<PlannedInstance>,
  lost: Iterable<InstanceName>,
): Problems {
  const found = new Map([...lost].map((name) => [name, DEVICE_LOST]))
  for (const { name, device } of served) {
    const { healthy = true, refusal } = devices.get(device.id) ?? {}
    if (healthy) continue
    const reason = `no Pod gets the device: ${refusal}`
    found.set(name, refusal === undefined ? HANDLER_LOST : { found: 'DeviceRefused', reason })
  }
  const first = [...found].sort(byText).slice(0, MAX_FINDINGS)
  return new Map(
    first.map(([name, each]) => [name, { ...each, reason: objectMessage(each.reason) }]),
  )
}

/** The problems as the node reports them: in order, each with its Instances. */
export function deviceProblems(problems: Problems): readonly DeviceProblem[] {
  const groups = new Map<string, Problem & { readonly instances: InstanceName[] }>()
  for (const [name, problem] of problems) {
    const key = `${problem.found ?? ''} ${problem.reason}`
    const group = groups.get(key) ?? { ...problem, instances: [] }
    groups.set(key, group)
    group.instances.push(name)
  }
  for (const { instances } of groups.values()) instances.sort()
  return [...groups].sort(byText).map(([, problem]) => problem)
}

function byText([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number {
  return a < b ? -1 : 1
}
