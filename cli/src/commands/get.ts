import { type Configuration, heldSlots, type Instance } from '@akrijs/api'
import { dump } from 'js-yaml'
import type { GetOptions } from '../command-options.js'
import { NoSuchObjectError } from '../errors.js'
import { controlSocket } from '../places.js'
import { deviceText, failureText, propertiesText, shortageText } from '../view/object-text.js'
import { formatTable } from '../view/table.js'
import { kindOf, objectsOf } from './kinds.js'

/** `akri get`: shows objects of the running agent. */
export async function get(
  kindText: string,
  name: string | undefined,
  { stateDir, output }: GetOptions,
): Promise<void> {
  const kind = kindOf(kindText)
  const list = await objectsOf(await controlSocket(stateDir), kind)
  const items =
    name === undefined ? list.items : list.items.filter(({ metadata }) => metadata.name === name)
  if (name !== undefined && items.length === 0)
    throw new NoSuchObjectError(`there is no ${kindText} ${name}`)
  const answer = name === undefined ? list : items[0]
  if (output === 'json') process.stdout.write(`${JSON.stringify(answer, undefined, 2)}\n`)
  else if (output === 'yaml') process.stdout.write(dump(answer))
  else
    process.stdout.write(
      `${items.length === 0 ? `no ${kind}` : tableOf(items, output === 'wide')}\n`,
    )
}

function tableOf(items: readonly (Configuration | Instance)[], isWide: boolean): string {
  const configurations = items.filter((item) => item.kind === 'Configuration')
  const instances = items.filter((item) => item.kind === 'Instance')
  return configurations.length > 0
    ? formatColumns(CONFIGURATION_COLUMNS, configurations, isWide)
    : formatColumns(INSTANCE_COLUMNS, instances, isWide)
}

function formatColumns<T>(
  columns: readonly Column<T>[],
  items: readonly T[],
  isWide: boolean,
): string {
  const shown = columns.filter(({ wide = false }) => isWide || !wide)
  return formatTable(
    shown.map(({ title }) => title),
    items.map((item) => shown.map(({ cell }) => cell(item))),
  )
}

interface Column<T> {
  readonly title: string
  /** Whether only `-o wide` shows the column. @default false */
  readonly wide?: boolean
  cell(item: T): string
}

const CONFIGURATION_COLUMNS: readonly Column<Configuration>[] = [
  { title: 'NAME', cell: ({ metadata }) => metadata.name },
  { title: 'NAMESPACE', wide: true, cell: ({ metadata }) => metadata.namespace },
  { title: 'HANDLER', cell: ({ spec }) => spec.discoveryHandler.name },
  { title: 'CAPACITY', cell: ({ spec }) => String(spec.capacity) },
  { title: 'DEVICES', cell: ({ status }) => String(status?.devices ?? 0) },
  {
    title: 'SLOTS USED',
    wide: true,
    cell: ({ status }) => `${status?.slots.claimed ?? 0}/${status?.slots.total ?? 0}`,
  },
  { title: 'CREATED', wide: true, cell: ({ metadata }) => metadata.creationTimestamp },
  {
    title: 'STATUS',
    cell: (configuration) =>
      failureText(configuration) ?? ['Ready', shortageText(configuration) ?? []].flat().join(': '),
  },
]

const INSTANCE_COLUMNS: readonly Column<Instance>[] = [
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
