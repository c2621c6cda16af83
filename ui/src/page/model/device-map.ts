import { configurationState } from './attention.js'
import { deviceTitle } from './device-title.js'
import { deviceState, type Health, heldSlots } from './device-use.js'
import {
  configurationOf,
  counted,
  deviceHref,
  nameOf,
  type ShownConfiguration,
  type ShownDevice,
  searchHref,
} from './shown.js'
import type { Items } from './store.js'

/** The columns, in the direction of the data. */
export const MAP_COLUMNS = [
  'Handlers',
  'Configurations',
  'Devices',
  'Nodes',
  'Brokers and Pods',
] as const

/** A box of the map. */
export interface MapItem {
  readonly id: string
  /** The index of its column. */
  readonly column: number
  /** The place of its upper edge, in rows. */
  readonly row: number
  readonly title: string
  /** What it is connected with, in words. */
  readonly relation: string
  readonly href: string
  readonly health: Health
}

/** The ids of the items on a way from a handler to a broker; a way may end before. */
export type MapPath = readonly string[]

export interface DeviceMap {
  readonly items: readonly MapItem[]
  readonly paths: readonly MapPath[]
  /** The height, in rows. */
  readonly rows: number
  /** The Configurations that the map leaves out. */
  readonly leftOut: number
}

/** The devices that a Configuration draws, beside others and alone: a person reads no more. */
const MAX_DEVICES = 6
const MAX_DEVICES_ALONE = 60
/** The Configurations of one map; a person chooses one of the others. */
const MAX_CONFIGURATIONS = 40
/** The nodes of one map. */
const MAX_NODES = 40

/** Devices that the map draws as one box: a device, or all that have no box. */
interface DeviceBox {
  readonly id: string
  readonly devices: readonly ShownDevice[]
  readonly title: string
  readonly relation: string
  readonly href: string
  readonly health: Health
}

/**
 * The way of each device from its handler to what uses it.
 * @param chosen the only Configuration to draw; all without it
 */
export function deviceMap(items: Items, chosen = ''): DeviceMap {
  const all = [...items.configurations.values()].filter(
    ({ object }) => chosen === '' || nameOf(object) === chosen,
  )
  const drawn = all
    .toSorted((a, b) => compare(handlerOf(a), handlerOf(b)) || compare(keyOf(a), keyOf(b)))
    .slice(0, MAX_CONFIGURATIONS)
  const devices = grouped(items.devices.values(), configurationOf)
  const boxes = drawn.map((configuration) => {
    const key = keyOf(configuration)
    const most = chosen === '' ? MAX_DEVICES : MAX_DEVICES_ALONE
    return { configuration, boxes: deviceBoxes(key, devices.get(key) ?? [], most) }
  })
  const nodes = nodeBoxes(boxes.flatMap((each) => each.boxes.flatMap((box) => box.devices)))
  return {
    ...layout(boxes, nodes),
    leftOut: all.length - drawn.length,
  }
}

const keyOf = ({ object }: ShownConfiguration) => nameOf(object)
const handlerOf = ({ object }: ShownConfiguration) => object.spec.discoveryHandler.name
const collator = new Intl.Collator('en', { numeric: true })
const compare = (a: string, b: string) => collator.compare(a, b)

function titleOf({ object, known }: ShownDevice): string {
  return deviceTitle(object.spec.brokerProperties, known).title
}

/** Devices with a problem first; what has no box of its own is in the last box. */
function deviceBoxes(key: string, devices: readonly ShownDevice[], most: number): DeviceBox[] {
  const rank = (device: ShownDevice) => (deviceState(device).health === 'wrong' ? 0 : 1)
  const sorted = devices
    .map((device) => ({ device, rank: rank(device), title: titleOf(device) }))
    .sort((a, b) => a.rank - b.rank || compare(a.title, b.title))
  // A box for one device more takes the room of the device.
  const own = sorted.length > most + 1 ? most : sorted.length
  const more = sorted.slice(own).map(({ device }) => device)
  const boxes = sorted.slice(0, own).map(({ device, title }): DeviceBox => {
    const { nodes } = device.object.spec
    const { health, text } = deviceState(device)
    return {
      id: `device ${nameOf(device.object)}`,
      devices: [device],
      title,
      relation: [
        `of ${device.object.spec.configurationName}`,
        nodes.length === 0 ? 'no node sees it' : `seen by ${listed(nodes, 'nodes')}`,
        text || useOf([device]),
      ].join('; '),
      href: deviceHref(device.object),
      health,
    }
  })
  if (more.length === 0) return boxes
  const wrong = more.filter((device) => rank(device) === 0).length
  return [
    ...boxes,
    {
      id: `devices ${key}`,
      devices: more,
      title: counted(more.length, 'more device'),
      relation: [
        'of the same Configuration, without a box of their own',
        ...(wrong > 0 ? [`${wrong} with a problem`] : []),
        useOf(more),
      ].join('; '),
      href: searchHref({ configuration: key }),
      health: wrong > 0 ? 'wrong' : 'good',
    },
  ]
}

/** What uses devices, in words. */
function useOf(devices: readonly ShownDevice[]): string {
  const used = devices.reduce((sum, device) => sum + heldSlots(device), 0)
  const total = devices.reduce((sum, { object }) => sum + object.spec.capacity, 0)
  return `${used} of ${counted(total, 'slot')} in use`
}

/** @param nouns what the names are of, in the plural */
function listed(names: readonly string[], nouns: string): string {
  if (names.length <= 4) return names.join(', ')
  return `${names.slice(0, 3).join(', ')} and ${names.length - 3} more ${nouns}`
}

function grouped<Item>(items: Iterable<Item>, keyOf: (item: Item) => string): Map<string, Item[]> {
  const groups = new Map<string, Item[]>()
  for (const item of items) {
    const key = keyOf(item)
    const group = groups.get(key)
    if (group === undefined) groups.set(key, [item])
    else group.push(item)
  }
  return groups
}

interface NodeBox {
  readonly id: string
  readonly title: string
  readonly devices: number
  readonly href: string
}

/** The box of each node by its name; nodes beyond a number share the last box. */
function nodeBoxes(devices: readonly ShownDevice[]): Map<string, NodeBox> {
  const counts = new Map<string, number>()
  for (const { object } of devices)
    for (const node of object.spec.nodes) counts.set(node, (counts.get(node) ?? 0) + 1)
  const names = [...counts.keys()].sort(compare)
  const own = names.length > MAX_NODES + 1 ? MAX_NODES : names.length
  const more: NodeBox = {
    id: 'nodes',
    title: counted(names.length - own, 'more node'),
    devices: names.slice(own).reduce((sum, name) => sum + (counts.get(name) ?? 0), 0),
    href: '/devices',
  }
  return new Map(
    names.map((name, index) => {
      const [id, title, href] = [`node ${name}`, name, searchHref({ q: name })]
      return [name, index < own ? { id, title, href, devices: counts.get(name) ?? 0 } : more]
    }),
  )
}

interface DrawnConfiguration {
  readonly configuration: ShownConfiguration
  readonly boxes: readonly DeviceBox[]
}

/** Devices are one below the other. What they belong to is in the middle of its devices. */
function layout(
  drawn: readonly DrawnConfiguration[],
  nodes: ReadonlyMap<string, NodeBox>,
): Omit<DeviceMap, 'leftOut'> {
  const items: MapItem[] = []
  const paths: MapPath[] = []
  const handlers = grouped(drawn, ({ configuration }) => handlerOf(configuration))
  let row = 0
  for (const [name, group] of handlers) {
    const handler = `handler ${name}`
    const start = row
    const names = group.map(({ configuration }) => configuration.object.metadata.name)
    for (const { configuration, boxes } of group) {
      const id = `configuration ${keyOf(configuration)}`
      const first = row
      for (const box of boxes) {
        items.push({ ...box, column: 2, row })
        const broker = brokerItem(box, row)
        if (broker !== undefined) items.push(broker)
        const own = new Set(
          box.devices.flatMap(({ object }) => object.spec.nodes.map((node) => nodes.get(node)?.id)),
        )
        const ends = broker === undefined ? [] : [broker.id]
        for (const node of own)
          if (node !== undefined) paths.push([handler, id, box.id, node, ...ends])
        if (own.size === 0) paths.push([handler, id, box.id])
        row++
      }
      if (boxes.length === 0) paths.push([handler, id])
      row = Math.max(row, first + 1)
      items.push(configurationItem(configuration, id, (first + row - 1) / 2))
    }
    items.push({
      id: handler,
      column: 0,
      row: (start + row - 1) / 2,
      title: name,
      relation: `finds devices for ${listed(names, 'Configurations')}`,
      href: '/handlers',
      health: 'good',
    })
  }
  const own = [...new Set(nodes.values())]
  const rows = Math.max(row, own.length)
  for (const [index, { id, title, href, devices }] of own.entries())
    items.push({
      id,
      column: 3,
      row: ((index + 0.5) * rows) / own.length - 0.5,
      title,
      relation: `sees ${counted(devices, 'device')}`,
      href,
      health: 'good',
    })
  return { items, paths, rows }
}

function configurationItem(shown: ShownConfiguration, id: string, row: number): MapItem {
  const { object } = shown
  const { tone, text } = configurationState(shown)
  const devices = counted(object.status?.devices ?? 0, 'device')
  return {
    id,
    column: 1,
    row,
    title: object.metadata.name,
    relation: [`asks ${handlerOf(shown)}`, devices, ...(tone === 'bad' ? [text] : [])].join('; '),
    href: searchHref({ configuration: nameOf(object) }),
    health: tone === 'bad' ? 'wrong' : 'good',
  }
}

/** What uses the devices of a box; undefined if nothing does. */
function brokerItem({ id, title, devices, href }: DeviceBox, row: number): MapItem | undefined {
  const brokers = devices.filter(({ broker }) => broker !== undefined)
  const held = devices.reduce((sum, device) => sum + heldSlots(device), 0)
  if (brokers.length === 0 && held === 0) return undefined
  const [first] = brokers
  const own = devices.length === 1 && first !== undefined ? deviceState(first) : undefined
  const wrong = brokers.some((device) => deviceState(device).health === 'wrong')
  return {
    id: `use of ${id}`,
    column: 4,
    row,
    title:
      own?.text ||
      (brokers.length > 0 ? counted(brokers.length, 'broker') : `${counted(held, 'slot')} in use`),
    relation: devices.length === 1 ? `uses ${title}` : `of the ${title}`,
    href,
    health: own?.health ?? (wrong ? 'wrong' : 'good'),
  }
}

/** The items and the paths that go through an item: each item that a person should see with it. */
export function relatedTo(paths: readonly MapPath[], id: string): ReadonlySet<string> {
  return new Set(paths.filter((path) => path.includes(id)).flat())
}

/** A line between two items, with the ends that a person follows. */
export interface MapEdge {
  readonly from: MapItem
  readonly to: MapItem
  readonly isLit: boolean
}

/** @param lit the item that a person follows; undefined for none */
export function edgesOf({ items, paths }: DeviceMap, lit: string | undefined): MapEdge[] {
  const byId = new Map(items.map((item) => [item.id, item]))
  const edges = new Map<string, MapEdge>()
  for (const path of paths) {
    const isOn = lit !== undefined && path.includes(lit)
    for (const [index, id] of path.slice(1).entries()) {
      const [from, to] = [byId.get(path[index] ?? ''), byId.get(id)]
      if (from === undefined || to === undefined) continue
      const key = `${from.id}\n${to.id}`
      edges.set(key, { from, to, isLit: isOn || (edges.get(key)?.isLit ?? false) })
    }
  }
  // Lines that a person follows are above the others.
  return [...edges.values()].sort((a, b) => Number(a.isLit) - Number(b.isLit))
}
