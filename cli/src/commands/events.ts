import { keyParts } from '@akrijs/kube'
import { printable } from '@akrijs/runtime'
import type { ObjectSource, ShownEvent } from '../objects/object-source.js'
import { formatMessages } from '../view/table.js'

/** `akri events`: shows the Events about Configurations, Instances and nodes. */
export async function events(name: string | undefined, source: ObjectSource): Promise<void> {
  const all = await source.events()
  const found = name === undefined ? all : all.filter(({ key }) => keyParts(key).name === name)
  const about = name === undefined ? '' : ` about ${name}`
  const lines = found.length === 0 ? [`no Events${about}`] : eventLines(found, true)
  process.stdout.write(`${lines.map(printable).join('\n')}\n`)
}

/** @param withObjects whether a column names the object. @default false */
export function eventLines(found: readonly ShownEvent[], withObjects = false): string[] {
  const objects = (text: () => string) => (withObjects ? [text()] : [])
  return formatMessages(
    ['LAST SEEN', 'TYPE', 'REASON', ...objects(() => 'OBJECT'), 'COUNT', 'MESSAGE'],
    found.map(({ kind, key, type, reason, message, count, lastTimestamp }) => [
      lastTimestamp,
      type,
      reason,
      ...objects(() => `${kind} ${key}`),
      String(count),
      message,
    ]),
  )
}
