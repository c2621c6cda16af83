import type { Instance, InstanceName } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import type { InstancePlan, PlannedInstance } from './instance-plan.js'

/** What a pass has to do about one Instance. */
export type InstanceWork = { readonly name: InstanceName } & (
  | { readonly leave: Instance }
  | { readonly serve: PlannedInstance }
)

/**
 * The Instances of a plan that need a write or a plugin, by name.
 * @param running the Instances with a running plugin
 */
export function instanceWork(
  { served, leave }: InstancePlan,
  node: NodeName,
  running: ReadonlySet<InstanceName>,
): Map<InstanceName, InstanceWork> {
  // After a restart, the devices that this node served come before new devices.
  const isJoined = ({ existing }: PlannedInstance) => existing?.spec.nodes.includes(node) === true
  const inOrder = [...served.filter(isJoined), ...served.filter((each) => !isJoined(each))]
  const work: InstanceWork[] = [
    ...leave
      // Nothing is left while it is offered.
      .filter(({ metadata }) => !running.has(metadata.name))
      .map((instance) => ({ name: instance.metadata.name, leave: instance })),
    ...inOrder
      .filter((planned) => !running.has(planned.name) || needsWrite(planned, node))
      .map((planned) => ({ name: planned.name, serve: planned })),
  ]
  return new Map(work.map((item) => [item.name, item]))
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
