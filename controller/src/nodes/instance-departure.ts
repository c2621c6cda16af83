import { heldSlots, holderOf, type Instance, releasePatch, type SlotName } from '@akrijs/api'
import { type JsonPatch, type NodeName, pointer } from '@akrijs/kube'

// How a lost node leaves an Instance. A pure function of the Instance.

type InstanceDeparture =
  | { readonly do: 'nothing' }
  /** No other node sees the device or claims a slot. */
  | { readonly do: 'delete' }
  | { readonly do: 'patch'; readonly patch: JsonPatch }

/** @param isUsed whether Pods of the node may still use the device: their slots stay claimed */
export function planDeparture(
  instance: Instance,
  node: NodeName,
  isUsed: boolean,
): InstanceDeparture {
  const { nodes, deviceUsage } = instance.spec
  const claims = Object.entries(deviceUsage).filter(([, usage]) => holderOf(usage) === node)
  const released = isUsed ? [] : claims
  const otherNodes = nodes.filter((name) => name !== node)
  if (otherNodes.length === 0 && heldSlots(deviceUsage) === released.length) return { do: 'delete' }
  const patch: JsonPatch[number][] = released.flatMap(([slot, usage]) =>
    releasePatch(instance, slot as SlotName, usage),
  )
  if (otherNodes.length < nodes.length)
    patch.push(
      { op: 'test', path: pointer('spec', 'nodes'), value: nodes },
      { op: 'remove', path: pointer('spec', 'nodes', String(nodes.indexOf(node))) },
    )
  return patch.length === 0 ? { do: 'nothing' } : { do: 'patch', patch }
}

/** The nodes that an Instance names: nodes that see the device, and nodes that claim a slot. */
export function nodesOf({ spec }: Instance): Set<NodeName> {
  const holders = Object.values(spec.deviceUsage).flatMap((usage) => holderOf(usage) ?? [])
  return new Set([...spec.nodes, ...holders])
}
