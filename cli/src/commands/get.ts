import type { Configuration, Instance } from '@akrijs/api'
import { dump } from 'js-yaml'
import type { GetOptions } from '../command-options.js'
import { NoSuchObjectError } from '../errors.js'
import { controlSocket } from '../places.js'
import { deviceText } from '../view/device-text.js'
import { firstLine, formatTable } from '../view/table.js'
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

function tableOf(items: readonly (Configuration | Instance)[], wide: boolean): string {
  const configurations = items.filter((item) => item.kind === 'Configuration')
  const instances = items.filter((item) => item.kind === 'Instance')
  const columns =
    configurations.length > 0 ? configurationColumns(configurations) : instanceColumns(instances)
  const shown = columns.filter((column) => wide || !column.wide)
  const rows = items.map((_, row) => shown.map(({ cells }) => cells[row] ?? ''))
  return formatTable(
    shown.map(({ title }) => title),
    rows,
  )
}

interface Column {
  readonly title: string
  readonly cells: readonly string[]
  /** Whether only `-o wide` shows the column. */
  readonly wide?: boolean
}

function configurationColumns(configurations: readonly Configuration[]): Column[] {
  const column = (title: string, cell: (configuration: Configuration) => string) => ({
    title,
    cells: configurations.map(cell),
  })
  return [
    column('NAME', ({ metadata }) => metadata.name),
    { ...column('NAMESPACE', ({ metadata }) => metadata.namespace), wide: true },
    column('HANDLER', ({ spec }) => spec.discoveryHandler.name),
    column('CAPACITY', ({ spec }) => String(spec.capacity)),
    column('DEVICES', ({ status }) => String(status?.devices ?? 0)),
    {
      ...column(
        'SLOTS USED',
        ({ status }) => `${status?.slots.claimed ?? 0}/${status?.slots.total ?? 0}`,
      ),
      wide: true,
    },
    { ...column('CREATED', ({ metadata }) => metadata.creationTimestamp), wide: true },
    column('STATUS', ({ status }) => {
      const failed = status?.conditions.find((condition) => condition.status === 'False')
      return failed === undefined ? 'Ready' : `${failed.reason}: ${firstLine(failed.message)}`
    }),
  ]
}

function instanceColumns(instances: readonly Instance[]): Column[] {
  const column = (title: string, cell: (instance: Instance) => string) => ({
    title,
    cells: instances.map(cell),
  })
  return [
    column('NAME', ({ metadata }) => metadata.name),
    { ...column('NAMESPACE', ({ metadata }) => metadata.namespace), wide: true },
    column('CONFIG', ({ spec }) => spec.configurationName),
    column('SHARED', ({ spec }) => String(spec.shared)),
    column('NODES', ({ spec }) => spec.nodes.join(',')),
    column('USED', ({ spec }) => {
      const usages = Object.values(spec.deviceUsage)
      return `${usages.filter((usage) => usage !== '').length}/${usages.length}`
    }),
    { ...column('CREATED', ({ metadata }) => metadata.creationTimestamp), wide: true },
    column('DEVICE', ({ spec }) => deviceText(spec.brokerProperties)),
    {
      ...column('PROPERTIES', ({ spec }) =>
        Object.entries(spec.brokerProperties)
          .map(([name, value]) => `${name}=${value}`)
          .join(' '),
      ),
      wide: true,
    },
  ]
}
