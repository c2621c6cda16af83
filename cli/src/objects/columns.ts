import {
  type Configuration,
  deviceText,
  heldSlots,
  type Instance,
  type NodeReport,
  propertiesText,
  stateText,
} from '@akrijs/api'
import { firstLine, valueAt } from '@akrijs/runtime'
import { type HandlerView, handlerState } from './handlers.js'

/** A column of the table of a kind. */
export interface Column<Item> {
  readonly title: string
  /** Whether only `-o wide` shows the column. @default false */
  readonly wide?: boolean
  cell(item: Item): string
}

export const CONFIGURATION_COLUMNS: readonly Column<Configuration>[] = [
  { title: 'NAME', cell: ({ metadata }) => metadata.name },
  { title: 'NAMESPACE', wide: true, cell: ({ metadata }) => metadata.namespace },
  // The spec of a Configuration in a cluster may be wrong.
  { title: 'HANDLER', cell: ({ spec }) => textAt(spec, 'discoveryHandler', 'name') },
  { title: 'CAPACITY', cell: ({ spec }) => textAt(spec, 'capacity') },
  { title: 'DEVICES', cell: ({ status }) => String(status?.devices ?? 0) },
  {
    title: 'SLOTS USED',
    wide: true,
    cell: ({ status }) => `${status?.slots.claimed ?? 0}/${status?.slots.total ?? 0}`,
  },
  { title: 'CREATED', wide: true, cell: ({ metadata }) => metadata.creationTimestamp },
  { title: 'STATUS', cell: stateText },
]

export const INSTANCE_COLUMNS: readonly Column<Instance>[] = [
  { title: 'NAME', cell: ({ metadata }) => metadata.name },
  { title: 'NAMESPACE', wide: true, cell: ({ metadata }) => metadata.namespace },
  { title: 'CONFIG', cell: ({ spec }) => spec.configurationName },
  { title: 'SHARED', cell: ({ spec }) => String(spec.shared) },
  { title: 'NODES', cell: ({ spec }) => spec.nodes.join(',') },
  {
    title: 'USED',
    cell: ({ spec: { deviceUsage } }) =>
      `${heldSlots(deviceUsage)}/${Object.keys(deviceUsage).length}`,
  },
  { title: 'CREATED', wide: true, cell: ({ metadata }) => metadata.creationTimestamp },
  { title: 'DEVICE', cell: ({ spec }) => deviceText(spec.brokerProperties) },
  {
    title: 'PROPERTIES',
    wide: true,
    cell: ({ spec }) => propertiesText(spec.brokerProperties),
  },
]

export const NODE_COLUMNS: readonly Column<NodeReport>[] = [
  { title: 'NAME', cell: ({ metadata }) => metadata.name },
  { title: 'CONFIGURATIONS', cell: ({ counts }) => String(counts.configurations) },
  { title: 'READY', cell: ({ counts }) => String(counts.ready) },
  { title: 'DEVICES', cell: ({ counts }) => String(counts.devices) },
  {
    title: 'AGENT',
    cell: ({ agentPod, agentNamespace }) => [agentNamespace ?? [], agentPod ?? []].flat().join('/'),
  },
  { title: 'CREATED', wide: true, cell: ({ metadata }) => metadata.creationTimestamp },
]

export const HANDLER_COLUMNS: readonly Column<HandlerView>[] = [
  { title: 'NAME', cell: ({ metadata }) => metadata.name },
  { title: 'CONFIGURATIONS', cell: ({ configurations }) => String(configurations.length) },
  {
    title: 'NODES',
    cell: ({ nodes }) => `${nodes.filter(({ connected }) => connected).length}/${nodes.length}`,
  },
  { title: 'STATUS', cell: handlerState },
  {
    title: 'ENDPOINTS',
    wide: true,
    cell: ({ nodes }) => nodes.map(({ message }) => firstLine(message)).join(', '),
  },
]

function textAt(root: unknown, ...path: readonly string[]): string {
  return String(valueAt(root, ...path) ?? '')
}
