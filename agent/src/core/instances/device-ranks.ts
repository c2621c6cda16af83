import { type Configuration, holderOf, type Instance } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import type { DeviceRanks } from '../discovery/configuration-discovery.js'
import { deviceDigest, instanceName } from './instance-name.js'
import { DEVICE_ID_ANNOTATION, isOwnedBy } from './instance-plan.js'

/** The order of devices beyond a bound: smaller ranks are kept first. */
const RANK = {
  /** A container of this node uses the device. */
  used: 0,
  /** This node serves the device. */
  served: 1,
  /** Another node serves the device: nodes with the same bound serve the same devices. */
  shared: 2,
  new: 3,
} as const

interface DeviceRanksInput {
  readonly configuration: Pick<Configuration, 'metadata'>
  readonly node: NodeName
  /** All Instances of the cluster. */
  readonly instances: Iterable<Instance>
}

/** The rank of each device of a Configuration, from the present Instances. */
export function deviceRanks({ configuration, node, instances }: DeviceRanksInput): DeviceRanks {
  const byId = new Map<string, number>()
  /** Instances of other implementations name no device. */
  const byName = new Map<string, number>()
  for (const instance of instances) {
    if (!isOwnedBy(instance, configuration)) continue
    const rank = rankIn(instance, node)
    if (rank === undefined) continue
    const id = instance.metadata.annotations?.[DEVICE_ID_ANNOTATION]
    if (id === undefined) byName.set(instance.metadata.name, rank)
    else byId.set(id, Math.min(rank, byId.get(id) ?? rank))
  }
  const rankOf = (id: string, shared: boolean) => {
    const rank = byId.get(id)
    if (rank !== undefined || byName.size === 0) return rank ?? RANK.new
    const digest = deviceDigest(id, shared ? { shared } : { shared, node })
    return byName.get(instanceName(configuration.metadata.name, digest)) ?? RANK.new
  }
  return { rankOf, isServed: (id, shared) => rankOf(id, shared) <= RANK.served }
}

function rankIn({ spec, metadata }: Instance, node: NodeName): number | undefined {
  if (metadata.deletionTimestamp !== undefined) return undefined
  if (spec.nodes.includes(node)) {
    const isUsed = Object.values(spec.deviceUsage).some((usage) => holderOf(usage) === node)
    return isUsed ? RANK.used : RANK.served
  }
  // A device of another node alone can have the same id as a device of this node.
  return spec.shared ? RANK.shared : undefined
}
