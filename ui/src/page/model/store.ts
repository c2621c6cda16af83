import type { AboutMessage, ChangeMessage } from '../../server/change-stream.js'
import type { UiKey } from '../../source.js'
import type {
  ShownConfiguration,
  ShownDevice,
  ShownEvents,
  ShownHandler,
  ShownOutages,
  ShownProblems,
} from './shown.js'

/** All items that the server has sent, by kind and key. */
export interface Items {
  readonly about: AboutMessage
  readonly configurations: ReadonlyMap<string, ShownConfiguration>
  readonly devices: ReadonlyMap<string, ShownDevice>
  readonly events: ReadonlyMap<string, ShownEvents>
  readonly handlers: ReadonlyMap<string, ShownHandler>
  readonly problems: ShownProblems['problems']
  readonly outages: Pick<ShownOutages, 'messages' | 'unread'>
}

export const NO_ITEMS: Items = {
  about: { title: '' },
  configurations: new Map(),
  devices: new Map(),
  events: new Map(),
  handlers: new Map(),
  problems: [],
  outages: { messages: [], unread: [] },
}

/** The items after a message. Kinds without a change stay the same objects. */
export function withChanges(items: Items, message: ChangeMessage): Items {
  const changed = { ...items }
  const copies = new Set<unknown>()
  const change = <Item>(map: ReadonlyMap<string, Item>, key: string, item: Item | null) => {
    const copy = copies.has(map) ? (map as Map<string, Item>) : new Map(map)
    copies.add(copy)
    if (item === null) copy.delete(key)
    else copy.set(key, item)
    return copy
  }
  for (const [key, item] of message) {
    const [kind, name] = partsOf(key)
    if (kind === 'configuration' && (item === null || item.kind === kind))
      changed.configurations = change(changed.configurations, name, item)
    if (kind === 'device' && (item === null || item.kind === kind))
      changed.devices = change(changed.devices, name, item)
    if (kind === 'events' && (item === null || item.kind === kind))
      changed.events = change(changed.events, name, item)
    if (kind === 'handler' && (item === null || item.kind === kind))
      changed.handlers = change(changed.handlers, name, item)
    if (item?.kind === 'problems') changed.problems = item.problems
    if (item?.kind === 'outages') changed.outages = item
  }
  return changed
}

function partsOf(key: UiKey): [kind: string, name: string] {
  const end = key.indexOf('/')
  return [key.slice(0, end), key.slice(end + 1)]
}
