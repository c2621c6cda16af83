import type { Configuration, Instance } from '@akrijs/kube'
import { dump } from 'js-yaml'
import { askAgent } from '../control/control-client.js'
import { NoSuchObjectError, UsageError } from '../errors.js'
import { controlSocket } from '../places.js'
import { describe as describeDevice } from '../view/agent-picture.js'
import { formatTable, printable } from '../view/table.js'

export interface GetOptions {
  readonly stateDir: string
  readonly output: 'table' | 'wide' | 'json' | 'yaml'
}

const KINDS: Readonly<Record<string, 'configurations' | 'instances'>> = {
  configurations: 'configurations',
  configuration: 'configurations',
  akric: 'configurations',
  instances: 'instances',
  instance: 'instances',
  akrii: 'instances',
}

/** `akri get`: objects of the agent that runs. */
export async function get(kindText: string, name: string | undefined, { stateDir, output }: GetOptions): Promise<void> {
  const kind = kindOf(kindText)
  const list = (await askAgent(controlSocket(stateDir), `/apis/akri.sh/v0/${kind}`)) as { items: (Configuration | Instance)[] }
  const items = name === undefined ? list.items : list.items.filter(({ metadata }) => metadata.name === name)
  if (name !== undefined && items.length === 0) throw new NoSuchObjectError(`there is no ${kindText} ${name}`)
  const answer = name === undefined ? list : items[0]
  if (output === 'json') process.stdout.write(`${JSON.stringify(answer, undefined, 2)}\n`)
  else if (output === 'yaml') process.stdout.write(dump(answer))
  else process.stdout.write(`${items.length === 0 ? `no ${kind}` : tableOf(items, output === 'wide')}\n`)
}

/** `akri describe`: one object with all that is known about it. */
export async function describe(kindText: string, name: string, { stateDir }: Pick<GetOptions, 'stateDir'>): Promise<void> {
  const socket = controlSocket(stateDir)
  const kind = kindOf(kindText)
  const { items } = (await askAgent(socket, `/apis/akri.sh/v0/${kind}`)) as { items: (Configuration | Instance)[] }
  const object = items.find(({ metadata }) => metadata.name === name)
  if (object === undefined) throw new NoSuchObjectError(`there is no ${kindText} ${name}`)
  const events = (await askAgent(socket, '/events')) as {
    items: { regarding: { key: string }; lastTimestamp: string; type: string; reason: string; message: string }[]
  }
  const brokers = (await askAgent(socket, '/brokers')) as {
    items: { instance: string; state?: { phase: string; reason?: string; pid?: number } }[]
  }
  const { metadata, ...rest } = object
  const lines = [
    `Name:       ${metadata.name}`,
    `Namespace:  ${metadata.namespace}`,
    '',
    ...dump(rest.spec)
      .trimEnd()
      .split('\n')
      .map((line) => `  ${line}`),
  ]
  if (object.kind === 'Configuration' && object.status !== undefined) {
    lines.push(
      '',
      `Devices:    ${object.status.devices}`,
      `Slots:      ${object.status.slots.claimed} of ${object.status.slots.total} claimed`,
      '',
    )
    const rows = object.status.conditions.map(({ type, status, reason, message, lastTransitionTime }) => [
      type,
      status,
      reason,
      lastTransitionTime,
      message,
    ])
    lines.push(...formatTable(['CONDITION', 'STATUS', 'REASON', 'SINCE', 'MESSAGE'], rows).split('\n'))
  }
  const reported = object.kind === 'Instance' ? Object.entries(object.status?.brokerInfo ?? {}) : []
  if (reported.length > 0) {
    const rows = reported.map(([name, content]) => [name, content.trimEnd().replaceAll('\n', ' | ')])
    lines.push('', ...formatTable(['REPORTED', 'CONTENT'], rows).split('\n'))
  }
  const broker = brokers.items.find(({ instance }) => instance === metadata.name)?.state
  if (broker !== undefined) lines.push('', `Broker:     ${broker.phase} ${broker.pid ?? broker.reason ?? ''}`)
  const own = events.items.filter(({ regarding }) => regarding.key === `${metadata.namespace}/${metadata.name}`)
  if (own.length > 0)
    lines.push(
      '',
      ...formatTable(
        ['LAST SEEN', 'TYPE', 'REASON', 'MESSAGE'],
        own.map((event) => [event.lastTimestamp, event.type, event.reason, event.message]),
      ).split('\n'),
    )
  process.stdout.write(`${lines.map(printable).join('\n')}\n`)
}

function kindOf(text: string): 'configurations' | 'instances' {
  const kind = KINDS[text.toLowerCase()]
  if (kind === undefined)
    throw new UsageError(`${JSON.stringify(text)} is not known; there are configurations (akric) and instances (akrii)`)
  return kind
}

function tableOf(items: readonly (Configuration | Instance)[], wide: boolean): string {
  const configurations = items.filter((item) => item.kind === 'Configuration')
  const instances = items.filter((item) => item.kind === 'Instance')
  const columns = configurations.length > 0 ? configurationColumns(configurations) : instanceColumns(instances)
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
  /** Only for who asks for more. */
  readonly wide?: boolean
}

function configurationColumns(configurations: readonly Configuration[]): Column[] {
  const column = (title: string, cell: (one: Configuration) => string) => ({ title, cells: configurations.map(cell) })
  return [
    column('NAME', ({ metadata }) => metadata.name),
    { ...column('NAMESPACE', ({ metadata }) => metadata.namespace), wide: true },
    column('HANDLER', ({ spec }) => spec.discoveryHandler.name),
    column('CAPACITY', ({ spec }) => String(spec.capacity)),
    column('DEVICES', ({ status }) => String(status?.devices ?? 0)),
    { ...column('SLOTS USED', ({ status }) => `${status?.slots.claimed ?? 0}/${status?.slots.total ?? 0}`), wide: true },
    { ...column('CREATED', ({ metadata }) => metadata.creationTimestamp), wide: true },
    column('STATUS', ({ status }) => {
      const wrong = status?.conditions.find((condition) => condition.status === 'False')
      return wrong === undefined ? 'Ready' : `${wrong.reason}: ${wrong.message.split('\n')[0]}`
    }),
  ]
}

function instanceColumns(instances: readonly Instance[]): Column[] {
  const column = (title: string, cell: (one: Instance) => string) => ({ title, cells: instances.map(cell) })
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
    column('DEVICE', ({ spec }) => describeDevice(spec.brokerProperties)),
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
