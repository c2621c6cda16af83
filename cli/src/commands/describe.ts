import { keyOf, type ObjectEvent } from '@akrijs/kube'
import { printable } from '@akrijs/runtime'
import { dump } from 'js-yaml'
import type { DescribeOptions } from '../command-options.js'
import { askAgent } from '../control/control-client.js'
import { NoSuchObjectError } from '../errors.js'
import { controlSocket } from '../places.js'
import { firstLine, formatMessages, formatTable, linesBelow } from '../view/table.js'
import { kindOf, objectsOf } from './kinds.js'

/** `akri describe`: shows an object with its status, Events and broker. */
export async function describe(
  kindText: string,
  name: string,
  { stateDir }: DescribeOptions,
): Promise<void> {
  const socket = await controlSocket(stateDir)
  const { items } = await objectsOf(socket, kindOf(kindText))
  const object = items.find(({ metadata }) => metadata.name === name)
  if (object === undefined) throw new NoSuchObjectError(`there is no ${kindText} ${name}`)
  const events = (await askAgent(socket, '/events')) as {
    items: (ObjectEvent & { readonly lastTimestamp: string })[]
  }
  const brokers = (await askAgent(socket, '/brokers')) as {
    items: { instance: string; state?: { phase: string; reason?: string; pid?: number } }[]
  }
  const { metadata, spec } = object
  const lines = [
    `Name:       ${metadata.name}`,
    `Namespace:  ${metadata.namespace}`,
    '',
    ...dump(spec)
      .trimEnd()
      .split('\n')
      .map((line) => `  ${line}`),
  ]
  if (object.kind === 'Configuration' && object.status !== undefined)
    lines.push(
      '',
      `Devices:    ${object.status.devices}`,
      `Slots:      ${object.status.slots.claimed} of ${object.status.slots.total} claimed`,
    )
  const conditions = object.status?.conditions ?? []
  if (conditions.length > 0) {
    const rows = conditions.map(({ type, status, reason, message, lastTransitionTime }) => [
      type,
      status,
      reason,
      lastTransitionTime,
      message,
    ])
    lines.push('', ...formatMessages(['CONDITION', 'STATUS', 'REASON', 'SINCE', 'MESSAGE'], rows))
  }
  const reported = object.kind === 'Instance' ? Object.entries(object.status?.brokerInfo ?? {}) : []
  if (reported.length > 0) {
    const rows = reported.map(([name, content]) => [
      name,
      content.trimEnd().replaceAll('\n', ' | '),
    ])
    lines.push('', ...formatTable(['REPORTED', 'CONTENT'], rows).split('\n'))
  }
  const broker = brokers.items.find(({ instance }) => instance === metadata.name)?.state
  if (broker !== undefined) {
    const { phase, pid, reason = '' } = broker
    lines.push('', `Broker:     ${phase} ${pid ?? firstLine(reason)}`, ...linesBelow(reason))
  }
  const objectEvents = events.items.filter(({ regarding }) => regarding.key === keyOf(object))
  if (objectEvents.length > 0)
    lines.push(
      '',
      ...formatMessages(
        ['LAST SEEN', 'TYPE', 'REASON', 'MESSAGE'],
        objectEvents.map((event) => [event.lastTimestamp, event.type, event.reason, event.message]),
      ),
    )
  process.stdout.write(`${lines.map(printable).join('\n')}\n`)
}
