import type { Configuration, Instance, NodeReport } from '@akrijs/api'
import { keyOf } from '@akrijs/kube'
import { firstLine, printable } from '@akrijs/runtime'
import { dump } from 'js-yaml'
import { NoSuchObjectError } from '../errors.js'
import { type HandlerView, handlersOf } from '../objects/handlers.js'
import { type Kind, kindOf } from '../objects/kinds.js'
import type { ObjectSource } from '../objects/object-source.js'
import { SLOT_HEADER, slotRows } from '../objects/slots.js'
import { formatMessages, formatTable, linesBelow } from '../view/table.js'
import { eventLines } from './events.js'

/** `akri describe`: shows an object with its status, Events and broker. */
export async function describe(
  kindText: string,
  name: string,
  open: () => Promise<ObjectSource>,
): Promise<void> {
  const kind = kindOf(kindText)
  const lines = await descriptionOf(kind, name, await open())
  if (lines === undefined) throw new NoSuchObjectError(`there is no ${kindText} ${name}`)
  process.stdout.write(`${lines.map(printable).join('\n')}\n`)
}

/** @returns undefined if there is no such object */
export async function descriptionOf(
  kind: Kind,
  name: string,
  source: ObjectSource,
): Promise<readonly string[] | undefined> {
  const named = <Item extends { readonly metadata: { readonly name: string } }>(
    items: readonly Item[],
  ) => items.filter(({ metadata }) => metadata.name === name)
  // Several namespaces can have an object of one name.
  const each = async <Item>(items: readonly Item[], show: (item: Item) => Promise<string[]>) => {
    const shown = await Promise.all(items.map(show))
    return shown.length === 0
      ? undefined
      : shown.flatMap((lines, index) => (index === 0 ? lines : ['', '', ...lines]))
  }
  switch (kind) {
    case 'configurations':
      return each(named(await source.configurations()), (found) =>
        configurationLines(found, source),
      )
    case 'instances':
      return each(named(await source.instances()), (found) => instanceLines(found, source))
    case 'nodes':
      return each(named(await source.nodes()), async (found) => nodeLines(found))
    case 'handlers': {
      const found = [source.configurations(), source.nodes()] as const
      const handlers = named(handlersOf(...(await Promise.all(found))))
      return each(handlers, async (handler) => handlerLines(handler))
    }
  }
}

async function configurationLines(object: Configuration, source: ObjectSource): Promise<string[]> {
  const { status } = object
  const counts = status && [
    '',
    `Devices:    ${status.devices}`,
    `Slots:      ${status.slots.claimed} of ${status.slots.total} claimed`,
  ]
  const nodes = await source.nodes()
  const reported = nodes.flatMap(({ metadata, configurations }) => {
    const ready = new Map(Object.entries(configurations))
      .get(keyOf(object))
      ?.conditions.find(({ type }) => type === 'Ready')
    return ready ? [[metadata.name, ready.status, ready.reason, ready.message]] : []
  })
  // One machine has one node, and its status is that of the Configuration.
  const isShown = nodes.length > 1
  return [
    ...specLines(object),
    ...(counts ?? []),
    ...conditionLines(status?.conditions ?? []),
    ...(isShown ? ['', ...formatMessages(['NODE', 'READY', 'REASON', 'MESSAGE'], reported)] : []),
    ...(await objectEvents(object, source)),
  ]
}

async function instanceLines(object: Instance, source: ObjectSource): Promise<string[]> {
  const reported = Object.entries(object.status?.brokerInfo ?? {}).map(([name, content]) => [
    name,
    content.trimEnd().replaceAll('\n', ' | '),
  ])
  const slots = slotRows([object], await source.uses())
  const broker = await source.broker(object)
  return [
    ...specLines(object),
    ...conditionLines(object.status?.conditions ?? []),
    ...(slots.length > 0 ? ['', formatTable(SLOT_HEADER, slots)] : []),
    ...(reported.length > 0 ? ['', formatTable(['REPORTED', 'CONTENT'], reported)] : []),
    ...(broker ? ['', `Broker:     ${firstLine(broker)}`, ...linesBelow(broker)] : []),
    ...(await objectEvents(object, source)),
  ].flatMap((text) => text.split('\n'))
}

function nodeLines({ metadata, agentPod, agentNamespace, counts, configurations }: NodeReport) {
  const rows = Object.entries(configurations).map(([key, { devices, conditions }]) => {
    const {
      status = '',
      reason = '',
      message = '',
    } = conditions.find(({ type }) => type === 'Ready') ?? {}
    return [key, String(devices), status, reason, message]
  })
  return [
    `Name:       ${metadata.name}`,
    ...(agentPod === undefined ? [] : [`Agent:      ${agentNamespace ?? ''}/${agentPod}`]),
    `Devices:    ${counts.devices}`,
    '',
    ...formatMessages(['CONFIGURATION', 'DEVICES', 'READY', 'REASON', 'MESSAGE'], rows),
  ]
}

function handlerLines({ metadata, configurations, nodes }: HandlerView): string[] {
  const rows = nodes.map(({ node, connected, message }) => [
    node,
    connected ? 'connected' : 'not connected',
    message,
  ])
  return [
    `Name:            ${metadata.name}`,
    `Configurations:  ${configurations.join(', ')}`,
    '',
    ...formatMessages(['NODE', 'STATE', 'MESSAGE'], rows),
  ]
}

function specLines({ metadata, spec }: Configuration | Instance): string[] {
  return [
    `Name:       ${metadata.name}`,
    `Namespace:  ${metadata.namespace}`,
    '',
    ...dump(spec)
      .trimEnd()
      .split('\n')
      .map((line) => `  ${line}`),
  ]
}

type Conditions = NonNullable<NonNullable<Instance['status']>['conditions']>

function conditionLines(conditions: Conditions): string[] {
  if (conditions.length === 0) return []
  const rows = conditions.map(({ type, status, reason, message, lastTransitionTime }) => [
    type,
    status,
    reason,
    lastTransitionTime,
    message,
  ])
  return ['', ...formatMessages(['CONDITION', 'STATUS', 'REASON', 'SINCE', 'MESSAGE'], rows)]
}

async function objectEvents(
  object: Configuration | Instance,
  source: ObjectSource,
): Promise<string[]> {
  const events = await source.events()
  const found = events.filter(({ kind, key }) => kind === object.kind && key === keyOf(object))
  return found.length === 0 ? [] : ['', ...eventLines(found)]
}
