import { type Configuration, holderOf, type Instance, type InstanceName } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import { printable } from '@akrijs/runtime'
import { RANK, type Rank, type RankOf } from '../discovery/device-set.js'
import { deviceIdOf, isOwnedBy } from './existing-instances.js'
import { deviceDigest, instanceName } from './instance-name.js'

interface DeviceRanksInput {
  readonly configuration: Pick<Configuration, 'metadata'>
  readonly node: NodeName
  /** At least those of the Configuration. */
  readonly instances: Iterable<Instance>
}

/** The rank of each device of a Configuration, from the Instances of this node. */
export function deviceRanks({ configuration, node, instances }: DeviceRanksInput): RankOf {
  const byName = new Map<InstanceName, { readonly rank: Rank; readonly id: string | undefined }>()
  const byId = new Map<string, Rank>()
  let isAnyWithoutId = false
  for (const instance of instances) {
    const { spec, metadata } = instance
    const isHere = spec.nodes.includes(node) && metadata.deletionTimestamp === undefined
    if (!isHere || !isOwnedBy(instance, configuration)) continue
    const isUsed = Object.values(spec.deviceUsage).some((usage) => holderOf(usage) === node)
    const rank = isUsed ? RANK.used : RANK.served
    const id = deviceIdOf(instance)
    byName.set(metadata.name, { rank, id })
    byId.set(`${spec.shared} ${id}`, rank)
    // Other implementations write no id.
    isAnyWithoutId ||= id === undefined
  }
  return (id, shared) => {
    const text = printable(id)
    const rank = byId.get(`${shared} ${text}`)
    const isSure = rank === undefined ? !isAnyWithoutId : !text.includes('\ufffd')
    if (isSure) return rank ?? RANK.new
    // Several ids can have one printable text. The name of the Instance has a digest of the id.
    const place = shared ? ({ shared } as const) : ({ shared, node } as const)
    for (const length of ['short', 'long'] as const) {
      const digest = deviceDigest(id, place, length)
      const found = byName.get(instanceName(configuration.metadata.name, digest))
      if (found !== undefined && (found.id ?? text) === text) return found.rank
    }
    return RANK.new
  }
}
