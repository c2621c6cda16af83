import { type Configuration, holderOf, type Instance } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import { printable } from '@akrijs/runtime'
import type { DeviceRanks } from '../discovery/configuration-discovery.js'
import { deviceIdOf, isOwnedBy } from './existing-instances.js'
import { deviceDigest, instanceName } from './instance-name.js'

/** The order of devices beyond a bound: smaller ranks are kept first. */
const RANK = {
  /** A container of this node uses the device. */
  used: 0,
  /** This node serves the device. */
  served: 1,
  /** The same of large devices: a device that grows does not displace the others. */
  usedLarge: 2,
  servedLarge: 3,
  /** Another node serves the device: nodes with the same bound serve the same devices. */
  shared: 4,
  new: 5,
} as const

const LARGE: Readonly<Record<number, number>> = {
  [RANK.used]: RANK.usedLarge,
  [RANK.served]: RANK.servedLarge,
}

interface DeviceRanksInput {
  readonly configuration: Pick<Configuration, 'metadata'>
  readonly node: NodeName
  /** At least those of the Configuration. */
  readonly instances: Iterable<Instance>
}

/** An Instance of the Configuration, as far as it ranks a device. */
interface RankedInstance {
  readonly rank: number
  /** The printable id of its device; undefined in Instances of other implementations. */
  readonly id: string | undefined
}

/**
 * The rank of each device of a Configuration, from the present Instances. Several ids can have one
 * printable text, so the name of the Instance decides too: its digest is that of the id itself.
 */
export function deviceRanks({ configuration, node, instances }: DeviceRanksInput): DeviceRanks {
  const byName = new Map<string, RankedInstance>()
  const ids = new Set<string>()
  let isWithoutId = false
  for (const instance of instances) {
    if (!isOwnedBy(instance, configuration)) continue
    const rank = rankIn(instance, node)
    if (rank === undefined) continue
    const id = deviceIdOf(instance)
    byName.set(instance.metadata.name, { rank, id })
    if (id === undefined) isWithoutId = true
    else ids.add(id)
  }
  const instanceRank = (id: string, shared: boolean) => {
    const text = printable(id)
    // A list can have 800,000 ids; a digest costs more than a look at the ids.
    if (!isWithoutId && !ids.has(text)) return RANK.new
    const place = shared ? ({ shared } as const) : ({ shared, node } as const)
    for (const length of ['short', 'long'] as const) {
      const digest = deviceDigest(id, place, length)
      const found = byName.get(instanceName(configuration.metadata.name, digest))
      if (found !== undefined && (found.id ?? text) === text) return found.rank
    }
    return RANK.new
  }
  return {
    rankOf(id, shared, units) {
      const rank = instanceRank(id, shared)
      return units > 1 ? (LARGE[rank] ?? rank) : rank
    },
    isServed: (id, shared) => instanceRank(id, shared) <= RANK.served,
  }
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
