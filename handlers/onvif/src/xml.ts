import { messageOf } from '@akrijs/sdk'
import { XMLParser, XMLValidator } from 'fast-xml-parser'
import { OnvifXmlError } from './errors.js'

/** What a document may have at most. */
export interface XmlLimits {
  /** @default 262144 */
  readonly maxBytes?: number
  /** How deep elements may lie in each other. @default 64 */
  readonly maxDepth?: number
  /** Elements, comments and CDATA sections together. @default 4000 */
  readonly maxElements?: number
  /** Of all elements together, declarations of namespaces among them. @default 2000 */
  readonly maxAttributes?: number
}

/** The name of an element, or one that stands in a text, such as `tds:Device`. */
export interface QualifiedName {
  /** Undefined where the prefix is not declared: field cameras forget to. */
  readonly namespace: string | undefined
  readonly local: string
}

/** An element. Names are local names: prefixes are the sender's choice and mean nothing. */
export class XmlElement {
  readonly name: string
  readonly namespace: string | undefined
  /** By local name. */
  readonly attributes: ReadonlyMap<string, string>
  readonly children: readonly XmlElement[]
  /** Its own text, without that of its children and without white space around. */
  readonly text: string
  readonly #scope: NamespaceScope | undefined

  /** @param ordered the element as the parser gives it */
  constructor(ordered: Ordered, parent: NamespaceScope | undefined) {
    const { tag, content } = tagOf(ordered)
    const attributes = Object.entries(ordered[':@'] ?? {}).map(
      ([name, value]) => [name, decodeReferences(value)] as const,
    )
    this.#scope = scopeOf(attributes, parent)
    const { namespace, local } = resolve(tag, this.#scope)
    this.name = local
    this.namespace = namespace
    this.attributes = byLocalName(attributes)
    const children: XmlElement[] = []
    let text = ''
    for (const part of content) {
      if (typeof part[TEXT] === 'string') text += decodeReferences(part[TEXT])
      else if (part[CDATA] !== undefined)
        text += part[CDATA].map((section) => section[TEXT] ?? '').join('')
      else children.push(new XmlElement(part, this.#scope))
    }
    this.children = children
    this.text = text.trim()
  }

  /** The first child of that name, or what lies further down along those names. */
  find(...path: readonly string[]): XmlElement | undefined {
    return path.reduce<XmlElement | undefined>(
      (element, name) => element?.children.find((child) => child.name === name),
      this,
    )
  }

  /** All children of that name. */
  all(name: string): XmlElement[] {
    return this.children.filter((child) => child.name === name)
  }

  /** The text of what {@link find} finds, where it is not empty. */
  textOf(...path: readonly string[]): string | undefined {
    return this.find(...path)?.text || undefined
  }

  /** Reads a name with a prefix out of the text, such as each of those in `Types`. */
  qualifiedName(text: string): QualifiedName {
    return resolve(text, this.#scope)
  }
}

/**
 * Reads a document: well-formed, without document type, and within the limits. Numbers stay texts.
 * @param document bytes are in the encoding that they declare, UTF-8 if they declare none
 * @throws OnvifXmlError
 */
export function parseXml(document: string | Uint8Array, limits: XmlLimits = {}): XmlElement {
  const { maxBytes = 256 * 1024, maxDepth = 64 } = limits
  const length = typeof document === 'string' ? Buffer.byteLength(document) : document.byteLength
  if (length > maxBytes)
    throw new OnvifXmlError(`the document has ${length} bytes, more than ${maxBytes}`)
  const text = (typeof document === 'string' ? document : decode(document)).replace(/^\ufeff/, '')
  checkMarkup(text, limits)
  return new XmlElement(rootOf(text, maxDepth), undefined)
}

/** Writes a text so that it can stand between tags and in attributes. Characters that XML cannot carry are left out. */
export function escapeXml(text: string): string {
  return text
    .replace(UNWRITABLE, '')
    .replace(/[&<>"'\r\n\t]/g, (character) => `&#${character.charCodeAt(0)};`)
}

const TEXT = '#text'
const CDATA = '#cdata'
const PREFIX = '@'

/** What the parser makes of one part of an element: a text, a CDATA section, or a child under its name. */
interface Ordered {
  readonly [TEXT]?: string
  readonly [CDATA]?: readonly Ordered[]
  readonly ':@'?: Readonly<Record<string, string>>
}

function rootOf(text: string, maxDepth: number): Ordered {
  const parser = new XMLParser({
    preserveOrder: true,
    ignoreAttributes: false,
    attributeNamePrefix: PREFIX,
    textNodeName: TEXT,
    cdataPropName: CDATA,
    parseTagValue: false,
    trimValues: false,
    // Its own decoder knows entities of document types.
    processEntities: false,
    ignoreDeclaration: true,
    jPath: false,
    maxNestedTags: maxDepth - 1,
  })
  let parts: Ordered[]
  try {
    // The parser alone takes broken documents too.
    const wellFormed = XMLValidator.validate(text)
    if (wellFormed !== true)
      throw new OnvifXmlError(shortened(`line ${wellFormed.err.line}: ${wellFormed.err.msg}`))
    parts = parser.parse(text)
  } catch (error) {
    throw error instanceof OnvifXmlError
      ? error
      : new OnvifXmlError(shortened(`it cannot be read as XML: ${messageOf(error)}`), {
          cause: error,
        })
  }
  const [root, ...others] = parts.filter((part) => part[TEXT] === undefined)
  if (root === undefined || others.length > 0)
    throw new OnvifXmlError('there is not exactly one outermost element')
  return root
}

function tagOf(ordered: Ordered): { readonly tag: string; readonly content: readonly Ordered[] } {
  for (const [tag, content] of Object.entries(ordered))
    if (tag !== ':@' && Array.isArray(content)) return { tag, content }
  throw new OnvifXmlError('there is text or a CDATA section outside of all elements')
}

/** What is wrong is said with the names of elements and attributes, which may be as long as the document. */
function shortened(reason: string): string {
  return reason.length > 200 ? `${reason.slice(0, 200)}…` : reason
}

/** Comments and CDATA sections, or else whatever begins with `<`: a tag with all that is in it, quoted `<` and `>` too. */
const MARKUP =
  /<!--[\s\S]*?-->|<!\[CDATA\[[\s\S]*?\]\]>|<\?|<!|<\/|<(?:[^<>"']|"[^"]*"|'[^']*')*>?/g
/** The values in a tag, or else the names: that of the element, and those of the attributes. */
const VALUE_OR_NAME = /"[^"]*"|'[^']*'|[^\s"'=/>]+/g

/** Refuses what SOAP does not allow and only an attacker sends, and counts before anything is built. */
function checkMarkup(text: string, { maxElements = 4000, maxAttributes = 2000 }: XmlLimits): void {
  let elements = 0
  let attributes = 0
  for (const { 0: found, index } of text.matchAll(MARKUP)) {
    if (found === '<!')
      throw new OnvifXmlError(
        'it has a document type, or a comment or CDATA section without an end',
      )
    if (found === '<?' && (index > 0 || !/^<\?xml\s/.test(text)))
      throw new OnvifXmlError('it has a processing instruction')
    if (found !== '</' && ++elements > maxElements)
      throw new OnvifXmlError(`it has more than ${maxElements} elements`)
    if (found.startsWith('<!') || !/[\s=]/.test(found)) continue
    // The first name is that of the element.
    attributes--
    for (const [part] of found.matchAll(VALUE_OR_NAME)) {
      if (!/^["']/.test(part) && ++attributes > maxAttributes)
        throw new OnvifXmlError(`it has more than ${maxAttributes} attributes`)
    }
  }
}

function decode(bytes: Uint8Array): string {
  const start = Buffer.from(
    bytes.buffer,
    bytes.byteOffset,
    Math.min(bytes.byteLength, 128),
  ).toString('latin1')
  const mark = start.startsWith('\xff\xfe')
    ? 'utf-16le'
    : start.startsWith('\xfe\xff')
      ? 'utf-16be'
      : undefined
  const declared = /^(?:\xef\xbb\xbf)?<\?xml\s[^>]*?encoding\s*=\s*["']([\w.:-]+)["']/.exec(
    start,
  )?.[1]
  const encoding = mark ?? declared ?? 'utf-8'
  try {
    return new TextDecoder(encoding, { fatal: true }).decode(bytes)
  } catch (error) {
    throw new OnvifXmlError(`it is not ${encoding}: ${messageOf(error)}`, { cause: error })
  }
}

const NAMED: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" }

/** Characters that no XML document has (section 2.2), also when written as numbers; halves of surrogate pairs among them. */
const UNWRITABLE = /[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu

function decodeReferences(text: string): string {
  if (!text.includes('&')) return text
  return text.replace(
    /&(?:#x([0-9a-f]{1,6})|#(\d{1,7})|(\w{1,8}));|&/gi,
    (reference, hex, decimal, name) => {
      if (name !== undefined) return NAMED[name] ?? unknown(reference)
      const code = hex !== undefined ? Number.parseInt(hex, 16) : Number(decimal ?? Number.NaN)
      if (!(code <= 0x10ffff)) return unknown(reference)
      const character = String.fromCodePoint(code)
      return character.replace(UNWRITABLE, '') === '' ? unknown(reference) : character
    },
  )
}

function unknown(reference: string): never {
  throw new OnvifXmlError(
    `${reference} stands for nothing: there are amp, lt, gt, quot, apos and the numbers of characters`,
  )
}

/** The prefixes that one element declares, and those around it. A chain, not a copy: an attacker would have thousands copied. */
interface NamespaceScope {
  readonly declared: ReadonlyMap<string, string>
  readonly parent: NamespaceScope | undefined
}

function scopeOf(
  attributes: Attributes,
  parent: NamespaceScope | undefined,
): NamespaceScope | undefined {
  const declared = new Map<string, string>()
  for (const [name, value] of attributes) {
    if (name === `${PREFIX}xmlns`) declared.set('', value)
    else if (name.startsWith(`${PREFIX}xmlns:`))
      declared.set(name.slice(PREFIX.length + 'xmlns:'.length), value)
  }
  return declared.size === 0 ? parent : { declared, parent }
}

function resolve(name: string, scope: NamespaceScope | undefined): QualifiedName {
  const colon = name.indexOf(':')
  const prefix = name.slice(0, Math.max(colon, 0))
  const local = name.slice(colon + 1)
  for (let at = scope; at !== undefined; at = at.parent) {
    const namespace = at.declared.get(prefix)
    if (namespace !== undefined) return { namespace: namespace || undefined, local }
  }
  return { namespace: undefined, local }
}

type Attributes = readonly (readonly [name: string, value: string])[]

function byLocalName(attributes: Attributes): ReadonlyMap<string, string> {
  const result = new Map<string, string>()
  for (const [name, value] of attributes) {
    const colon = name.indexOf(':')
    if (name === `${PREFIX}xmlns` || name.startsWith(`${PREFIX}xmlns:`)) continue
    // One without a prefix is the element's own, and goes first.
    if (colon < 0) result.set(name.slice(PREFIX.length), value)
    else if (!result.has(name.slice(colon + 1))) result.set(name.slice(colon + 1), value)
  }
  return result
}
