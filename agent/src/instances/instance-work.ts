import type { InstanceName } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import type { LeftInstance, PlannedInstance } from './instance-plan.js'
import type { RunningInstances } from './running-instances.js'

/** What a pass has to do about one Instance. */
export type InstanceWork = { readonly name: InstanceName } & (
  | { readonly leave: LeftInstance }
  | { readonly serve: PlannedInstance }
)

interface WorkInput {
  readonly served: ReadonlyMap<InstanceName, PlannedInstance>
  readonly left: ReadonlyMap<InstanceName, LeftInstance>
  readonly running: Pick<RunningInstances, 'get'>
  readonly node: NodeName
}

/** @returns undefined if the Instance needs neither a write nor a plugin */
export function workOf(
  name: InstanceName,
  { served, left, running, node }: WorkInput,
): InstanceWork | undefined {
  const present = running.get(name)
  const planned = served.get(name)
  if (planned !== undefined) {
    const lacksPlugin = present === undefined || (planned.hasResource && !present.hasResource)
    return lacksPlugin || needsWrite(planned, node) ? { name, serve: planned } : undefined
  }
  const leave = left.get(name)
  // Nothing is left while it is offered.
  return leave === undefined || present !== undefined ? undefined : { name, leave }
}

/**
 * Orders new work: after a restart, the devices that this node served come before new devices.
 */
export function inOrder(work: readonly InstanceWork[], node: NodeName): InstanceWork[] {
  const rank = (item: InstanceWork) => {
    if ('leave' in item) return 0
    return item.serve.existing?.spec.nodes.includes(node) === true ? 1 : 2
  }
  const ranked: InstanceWork[][] = [[], [], []]
  for (const item of work) ranked[rank(item)]?.push(item)
  return ranked.flat()
}

/** Whether this node writes the Instance, or would in place of the first node. */
export function needsWrite(
  { existing, capacity, properties }: PlannedInstance,
  node: NodeName,
): boolean {
  if (existing === undefined) return true
  if (existing.metadata.deletionTimestamp !== undefined) return false
  const place = existing.spec.nodes.indexOf(node)
  return (
    place < 0 ||
    existing.spec.capacity !== capacity ||
    (place === 0 && !isEqual(existing.spec.brokerProperties, properties))
  )
}

function isEqual(
  before: Readonly<Record<string, string>>,
  planned: Readonly<Record<string, string>>,
): boolean {
  const properties = Object.entries(planned)
  return (
    Object.keys(before).length === properties.length &&
    properties.every(([name, value]) => before[name] === value)
  )
}
