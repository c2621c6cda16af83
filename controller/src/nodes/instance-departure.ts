import {
  type Compatibility,
  heldSlots,
  holderOf,
  type Instance,
  releasePatch,
  type SlotName,
} from '@akrijs/api'
import { type JsonPatch, type NodeName, pointer } from '@akrijs/kube'
import type { InstanceChange } from '../instance-change.js'

// How a lost node leaves an Instance. A pure function of the Instance.

/** @param isUsed whether Pods of the node may still use the device: their slots stay claimed */
export function planDeparture(
  instance: Instance,
  node: NodeName,
  isUsed: boolean,
  compatibility: Compatibility = 'off',
): InstanceChange {
  const { nodes, deviceUsage } = instance.spec
  const claims = Object.entries(deviceUsage).filter(([, usage]) => holderOf(usage) === node)
  const released = isUsed ? [] : claims
  const otherNodes = nodes.filter((name) => name !== node)
  if (otherNodes.length === 0 && heldSlots(deviceUsage) === released.length) return { do: 'delete' }
  const patch: JsonPatch[number][] = released.flatMap(([slot, usage]) =>
    releasePatch(instance, slot as SlotName, usage, compatibility),
  )
  if (otherNodes.length < nodes.length)
    patch.push(
      { op: 'test', path: pointer('spec', 'nodes'), value: nodes },
      { op: 'remove', path: pointer('spec', 'nodes', String(nodes.indexOf(node))) },
    )
  return patch.length === 0 ? { do: 'nothing' } : { do: 'patch', patch }
}
