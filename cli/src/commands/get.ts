import { API_VERSION, GROUP } from '@akrijs/api'
import { InvalidOptionError } from '@akrijs/runtime'
import { dump } from 'js-yaml'
import type { GetOptions } from '../command-options.js'
import { NoSuchObjectError } from '../errors.js'
import {
  CONFIGURATION_COLUMNS,
  type Column,
  HANDLER_COLUMNS,
  INSTANCE_COLUMNS,
  NODE_COLUMNS,
} from '../objects/columns.js'
import { handlersOf } from '../objects/handlers.js'
import { type Kind, kindOf } from '../objects/kinds.js'
import type { ObjectSource } from '../objects/object-source.js'
import { formatTable } from '../view/table.js'

/** An object that a command shows. */
interface Named {
  readonly kind: string
  readonly metadata: { readonly name: string; readonly namespace: string }
}

/** The objects of a kind, and their table. */
interface Listing {
  readonly items: readonly Named[]
  table(isShown: IsShown): Table
}

type IsShown = (column: Pick<Column<never>, 'title' | 'wide'>) => boolean

interface Table {
  readonly titles: readonly string[]
  /** One for each item. */
  readonly rows: readonly (readonly string[])[]
}

/** `akri get`: shows objects of the running agent, or of a cluster. */
export async function get(
  kindText: string,
  name: string | undefined,
  { output, allNamespaces, watch }: Pick<GetOptions, 'output' | 'allNamespaces' | 'watch'>,
  open: () => Promise<ObjectSource>,
): Promise<void> {
  const kind = kindOf(kindText)
  const isShown: IsShown = ({ title, wide = false }) =>
    !wide || output === 'wide' || (allNamespaces && title === 'NAMESPACE')
  if (watch && output !== 'table' && output !== 'wide')
    throw new InvalidOptionError('--watch prints rows: leave -o out, or write -o wide')
  const source = await open()
  if (watch) return follow(kind, name, isShown, source)
  const { items, table } = await listingOf(kind, name, source)
  if (name !== undefined && items.length === 0)
    throw new NoSuchObjectError(`there is no ${kindText} ${name}`)
  const list = { apiVersion: API_VERSION, kind: `${LISTED[kind]}List`, items }
  // In all namespaces, a name can have several objects.
  const answer = name === undefined || items.length > 1 ? list : items[0]
  if (output === 'json') print(JSON.stringify(answer, undefined, 2))
  else if (output === 'yaml') print(dump(answer).trimEnd())
  else if (output === 'name') for (const { metadata } of items) print(longName(kind, metadata.name))
  else if (items.length === 0) print(`no ${kind}`)
  else {
    const { titles, rows } = table(isShown)
    print(formatTable(titles, rows))
  }
}

/** Prints all rows, and then each row that changes. An object that goes has a last row. */
async function follow(
  kind: Kind,
  name: string | undefined,
  isShown: IsShown,
  source: ObjectSource,
): Promise<never> {
  let before = new Map<string, string>()
  for (let isFirst = true; ; isFirst = false) {
    const { items, table } = await listingOf(kind, name, source)
    const { titles, rows } = table(isShown)
    const now = new Map<string, string>()
    const changed: (readonly string[])[] = []
    for (const [index, row] of rows.entries()) {
      const { namespace = '', name: found = '' } = items[index]?.metadata ?? {}
      const key = `${namespace}/${found}`
      now.set(key, row.join('\n'))
      if (before.get(key) !== now.get(key)) changed.push(row)
    }
    for (const key of before.keys())
      if (!now.has(key)) changed.push([key.slice(key.indexOf('/') + 1), 'deleted'])
    before = now
    // The header stands above the first rows.
    const text = formatTable(titles, changed)
    if (isFirst) print(text)
    else if (changed.length > 0) print(text.slice(text.indexOf('\n') + 1))
    await source.changed(kind)
  }
}

/** The kind of each object. */
const LISTED: Readonly<Record<Kind, string>> = {
  configurations: 'Configuration',
  instances: 'Instance',
  nodes: 'NodeReport',
  handlers: 'Handler',
}

/** As kubectl writes it: `instance.akri.sh/cam-8120fe`. */
function longName(kind: Kind, name: string): string {
  return `${LISTED[kind].toLowerCase()}.${GROUP}/${name}`
}

async function listingOf(
  kind: Kind,
  name: string | undefined,
  source: ObjectSource,
): Promise<Listing> {
  const listing = <Item extends Named>(
    all: readonly Item[],
    columns: readonly Column<Item>[],
  ): Listing => {
    const items = name === undefined ? all : all.filter(({ metadata }) => metadata.name === name)
    const table: Listing['table'] = (isShown) => {
      const shown = columns.filter(isShown)
      return {
        titles: shown.map(({ title }) => title),
        rows: items.map((item) => shown.map(({ cell }) => cell(item))),
      }
    }
    return { items, table }
  }
  switch (kind) {
    case 'configurations':
      return listing(await source.configurations(), CONFIGURATION_COLUMNS)
    case 'instances':
      return listing(await source.instances(), INSTANCE_COLUMNS)
    case 'nodes':
      return listing(await source.nodes(), NODE_COLUMNS)
    case 'handlers': {
      const found = [source.configurations(), source.nodes()] as const
      return listing(handlersOf(...(await Promise.all(found))), HANDLER_COLUMNS)
    }
  }
}

function print(text: string): void {
  process.stdout.write(`${text}\n`)
}
