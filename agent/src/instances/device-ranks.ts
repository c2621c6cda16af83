import type { Configuration, Instance, InstanceName } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import { printable } from '@akrijs/runtime'
import { RANK, type Rank, type RankOf } from '../discovery/device-set.js'
import { deviceIdOf, isOwnedBy, isUsedBy } from './existing-instances.js'
import { DeviceDigests } from './instance-name.js'

/**
 * The rank of each device of a Configuration, from the Instances of this node.
 * @param instances at least those of the Configuration
 */
export function deviceRanks(
  configuration: Pick<Configuration, 'metadata'>,
  instances: readonly Instance[],
  node: NodeName,
): RankOf {
  const byName = new Map<InstanceName, { readonly rank: Rank; readonly id: string | undefined }>()
  const byId = new Map<string, Rank>()
  const digests = new DeviceDigests(configuration.metadata.name, node)
  let isAnyWithoutId = false
  for (const instance of instances) {
    const { spec, metadata } = instance
    const isHere = spec.nodes.includes(node) && metadata.deletionTimestamp === undefined
    if (!isHere || !isOwnedBy(instance, configuration)) continue
    const rank = isUsedBy(instance, node) ? RANK.used : RANK.served
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
    for (const length of ['short', 'long'] as const) {
      const found = byName.get(digests.of(id, shared, length).name)
      if (found !== undefined && (found.id ?? text) === text) return found.rank
    }
    return RANK.new
  }
}
