import { shorten } from '@akrijs/runtime'
import { EVENT_ID, type Event, getScalarValue, parseEvents, SCALAR_STYLE } from 'js-yaml'

export type YamlScalar = Extract<Event, { readonly type: typeof EVENT_ID.SCALAR }>

/** A value of a document, with its offset in the text. */
type YamlNode =
  | { readonly kind: 'scalar'; readonly offset: number; readonly scalar: YamlScalar }
  | { readonly kind: 'sequence'; readonly offset: number; readonly items: readonly YamlNode[] }
  | { readonly kind: 'mapping'; readonly offset: number; readonly fields: readonly YamlField[] }
  | { readonly kind: 'alias'; readonly offset: number; readonly target: YamlNode | undefined }

interface YamlField {
  readonly name: string
  /** The offset of the name. */
  readonly offset: number
  readonly value: YamlNode
}

interface Found {
  readonly offset: number
  readonly node: YamlNode
}

/** The longest way to a value: a path of a problem is shorter, also through aliases. */
const MAX_STEPS = 200

/** The places of the values of a text. */
export class YamlTree {
  readonly #source: string
  readonly #events: readonly Event[]
  readonly #anchors = new Map<string, YamlNode>()
  readonly #documents: (YamlNode | undefined)[] = []
  #next = 0

  /** @throws YAMLException */
  constructor(source: string) {
    this.#source = source
    this.#events = parseEvents(source, {})
    while (this.#next < this.#events.length) {
      this.#next++
      this.#anchors.clear()
      this.#documents.push(this.#peek() === EVENT_ID.POP ? undefined : this.#node())
      this.#next++
    }
  }

  /**
   * The offset of a field or an item: that of the field's name. If the path does not exist, that of
   * its nearest part that does.
   * @param document from 1
   * @param path as problems have it, such as `spec.rules[0].name`
   */
  offsetOf(document: number, path: string): number {
    return Math.max(0, this.#find(document, path)?.offset ?? 0)
  }

  /** The text of a field; undefined if the field has another value, or does not exist. */
  scalarAt(document: number, path: string): YamlScalar | undefined {
    const found = this.#find(document, path)
    return found?.rest === '' && found.node.kind === 'scalar' ? found.node.scalar : undefined
  }

  #find(document: number, path: string): (Found & { readonly rest: string }) | undefined {
    const root = this.#documents[document - 1]
    if (root === undefined) return undefined
    let found: Found & { readonly rest: string } = { offset: root.offset, node: root, rest: path }
    for (let step = 0; step < MAX_STEPS && found.rest !== ''; step++) {
      const { node, rest } = found
      if (node.kind === 'alias') {
        if (node.target === undefined) break
        found = { ...found, node: node.target }
        continue
      }
      const child = childOf(node, rest.replace(/^\./, ''))
      if (child === undefined) break
      found = child
    }
    return found
  }

  #peek(): number | undefined {
    return this.#events[this.#next]?.type
  }

  /** Reads the next value. The parser limits its depth. */
  #node(): YamlNode {
    const event = this.#events[this.#next++]
    if (event?.type === EVENT_ID.SEQUENCE) {
      const items: YamlNode[] = []
      const node: YamlNode = { kind: 'sequence', offset: event.start, items }
      this.#anchor(event, node)
      while (this.#isInside()) items.push(this.#node())
      this.#next++
      return node
    }
    if (event?.type === EVENT_ID.MAPPING) {
      const fields: YamlField[] = []
      const node: YamlNode = { kind: 'mapping', offset: event.start, fields }
      this.#anchor(event, node)
      while (this.#isInside()) {
        const key = this.#node()
        const value = this.#node()
        if (key.kind === 'scalar')
          fields.push({ name: this.text(key.scalar), offset: key.offset, value })
      }
      this.#next++
      return node
    }
    if (event?.type === EVENT_ID.SCALAR) {
      const node: YamlNode = { kind: 'scalar', offset: startOf(event), scalar: event }
      this.#anchor(event, node)
      return node
    }
    if (event?.type === EVENT_ID.ALIAS) {
      const name = this.#source.slice(event.anchorStart, event.anchorEnd)
      return { kind: 'alias', offset: event.anchorStart - 1, target: this.#anchors.get(name) }
    }
    throw new TypeError('the events of a document end before the document')
  }

  /** The text that a scalar stands for. */
  text(scalar: YamlScalar): string {
    return getScalarValue(this.#source, scalar)
  }

  #isInside(): boolean {
    return this.#next < this.#events.length && this.#peek() !== EVENT_ID.POP
  }

  #anchor(event: { readonly anchorStart: number; readonly anchorEnd: number }, node: YamlNode) {
    if (event.anchorStart >= 0)
      this.#anchors.set(this.#source.slice(event.anchorStart, event.anchorEnd), node)
  }
}

/** An empty value has no place: -1. */
function startOf({ valueStart, style, tagStart, anchorStart }: YamlScalar): number {
  const isQuoted = style === SCALAR_STYLE.SINGLE_QUOTED || style === SCALAR_STYLE.DOUBLE_QUOTED
  const starts = [isQuoted ? valueStart - 1 : valueStart, tagStart, anchorStart - 1]
  const present = starts.filter((start) => start >= 0)
  return present.length === 0 ? -1 : Math.min(...present)
}

/** @param rest the path from the node on, without a dot at its front */
function childOf(node: YamlNode, rest: string): (Found & { readonly rest: string }) | undefined {
  if (node.kind === 'sequence') {
    const [text = '', index] = /^\[(\d+)\]/.exec(rest) ?? []
    const item = index === undefined ? undefined : node.items[Number(index)]
    if (item === undefined) return undefined
    const offset = item.offset < 0 ? node.offset : item.offset
    return { offset, node: item, rest: rest.slice(text.length) }
  }
  if (node.kind !== 'mapping') return undefined
  let best: { readonly field: YamlField; readonly length: number } | undefined
  for (const field of node.fields) {
    const length = lengthAtFront(rest, field.name)
    if (length > (best?.length ?? 0)) best = { field, length }
  }
  if (best === undefined) return undefined
  const { field, length } = best
  return { offset: field.offset, node: field.value, rest: rest.slice(length) }
}

/** How many characters of a path name the field: problems write a name as it is, or in brackets. */
function lengthAtFront(path: string, name: string): number {
  if (isAtFront(path, name)) return name.length
  // A mapping may have many names: few are written in brackets.
  const inBrackets = path.startsWith('["') ? `[${shorten(name)}]` : ''
  return isAtFront(path, inBrackets) ? inBrackets.length : 0
}

function isAtFront(path: string, spelling: string): boolean {
  const next = path[spelling.length]
  return path.startsWith(spelling) && (next === undefined || next === '.' || next === '[')
}
