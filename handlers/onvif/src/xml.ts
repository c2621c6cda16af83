import { messageOf } from '@akrijs/sdk'
import { XMLParser, XMLValidator } from 'fast-xml-parser'
import { OnvifXmlError } from './errors.js'

/** Limits of a document. */
export interface XmlLimits {
  /** @default 262144 */
  readonly maxBytes?: number
  /** The depth of nested elements. @default 64 */
  readonly maxDepth?: number
  /** Elements, comments and CDATA sections together. @default 4000 */
  readonly maxElements?: number
  /** Attributes of all elements, with namespace declarations. @default 2000 */
  readonly maxAttributes?: number
}

/** The name of an element, or a name with a prefix in a text, such as `tds:Device`. */
export interface QualifiedName {
  /** Undefined if the prefix is not declared: some cameras forget it. */
  readonly namespace: string | undefined
  readonly local: string
}

export interface XmlOptions extends XmlLimits {
  /** The encoding of a document that names no encoding itself. @default 'utf-8' */
  readonly charset?: string | undefined
}

/** An element. All names are local names, because each sender chooses its own prefixes. */
export class XmlElement {
  readonly name: string
  readonly namespace: string | undefined
  /** By local name. */
  readonly attributes: ReadonlyMap<string, string>
  readonly children: readonly XmlElement[]
  /** The text of the element without its children, and without white space around it. */
  readonly text: string
  readonly #scope: NamespaceScope | undefined

  /** @param ordered the element as the parser returns it */
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

  /**
   * The first child with the name; with several names, the first child of that child, and so on.
   */
  find(...path: readonly string[]): XmlElement | undefined {
    return path.reduce<XmlElement | undefined>(
      (element, name) => element?.children.find((child) => child.name === name),
      this,
    )
  }

  /** All children with the name. */
  all(name: string): XmlElement[] {
    return this.children.filter((child) => child.name === name)
  }

  /** The text of the element that {@link find} finds; undefined if it is empty. */
  textOf(...path: readonly string[]): string | undefined {
    return this.find(...path)?.text || undefined
  }

  /** Resolves the prefix of a name in the text, such as the names in `Types`. */
  qualifiedName(text: string): QualifiedName {
    return resolve(text, this.#scope)
  }
}

/**
 * Parses a well-formed document without a document type, within the limits. White space before the
 * document, and zero bytes after the document, are ignored.
 * @param document bytes are decoded by the encoding that they declare
 * @throws OnvifXmlError
 */
export function parseXml(document: string | Uint8Array, options: XmlOptions = {}): XmlElement {
  const { maxBytes = 256 * 1024, maxDepth = 64, charset } = options
  const length = typeof document === 'string' ? Buffer.byteLength(document) : document.byteLength
  if (length > maxBytes)
    throw new OnvifXmlError(`the document has ${length} bytes, more than ${maxBytes}`)
  const decoded = typeof document === 'string' ? document : decode(document, charset)
  // trimStart() also removes a byte order mark.
  const text = withoutZeros(decoded).trimStart()
  checkMarkup(text, options)
  return new XmlElement(rootOf(text, maxDepth), undefined)
}

/** Escapes a text for elements and attributes. Characters that XML does not allow are left out. */
export function escapeXml(text: string): string {
  return text
    .replace(UNWRITABLE, '')
    .replace(/[&<>"'\r\n\t]/g, (character) => `&#${character.charCodeAt(0)};`)
}

const TEXT = '#text'
const CDATA = '#cdata'
const PREFIX = '@'

/**
 * A part of an element as the parser returns it: a text, a CDATA section, or a child under its
 * name.
 */
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
    // decodeReferences() does that: the decoder of the parser would resolve entities of a document
    // type.
    processEntities: false,
    ignoreDeclaration: true,
    jPath: false,
    maxNestedTags: maxDepth - 1,
  })
  let parts: Ordered[]
  try {
    // The parser itself accepts broken documents.
    const wellFormed = XMLValidator.validate(text)
    if (wellFormed !== true)
      throw new OnvifXmlError(shortened(`line ${wellFormed.err.line}: ${wellFormed.err.msg}`))
    parts = parser.parse(text)
  } catch (error) {
    throw OnvifXmlError.is(error)
      ? error
      : new OnvifXmlError(shortened(`not XML: ${messageOf(error)}`), { cause: error })
  }
  const [root, ...others] = parts.filter((part) => part[TEXT] === undefined)
  if (root === undefined || others.length > 0)
    throw new OnvifXmlError('the document does not have exactly one root element')
  return root
}

function tagOf(ordered: Ordered): { readonly tag: string; readonly content: readonly Ordered[] } {
  for (const [tag, content] of Object.entries(ordered))
    if (tag !== ':@' && Array.isArray(content)) return { tag, content }
  throw new OnvifXmlError('the document has text or a CDATA section outside of the root element')
}

/** Messages of the parser have names of elements, which can be as long as the document. */
function shortened(reason: string): string {
  return reason.length > 200 ? `${reason.slice(0, 200)}…` : reason
}

/**
 * A comment, a CDATA section, or another part that begins with `<`: a tag can have `<` and `>` in
 * quotes.
 */
const MARKUP =
  /<!--[\s\S]*?-->|<!\[CDATA\[[\s\S]*?\]\]>|<\?|<!|<\/|<(?:[^<>"']|"[^"]*"|'[^']*')*>?/g
/** A value in a tag, or a name: of the element or of an attribute. */
const VALUE_OR_NAME = /"[^"]*"|'[^']*'|[^\s"'=/>]+/g

/** Refuses markup that SOAP does not allow, and counts elements before the parser builds them. */
function checkMarkup(text: string, { maxElements = 4000, maxAttributes = 2000 }: XmlLimits): void {
  let elements = 0
  let attributes = 0
  for (const { 0: markup, index } of text.matchAll(MARKUP)) {
    if (markup === '<!')
      throw new OnvifXmlError(
        'the document has a document type, or an open comment or CDATA section',
      )
    if (markup === '<?' && (index > 0 || !/^<\?xml\s/.test(text)))
      throw new OnvifXmlError('the document has a processing instruction')
    if (markup !== '</' && ++elements > maxElements)
      throw new OnvifXmlError(`the document has more than ${maxElements} elements`)
    if (markup.startsWith('<!') || !/[\s=]/.test(markup)) continue
    // The first name is the name of the element.
    attributes--
    for (const [part] of markup.matchAll(VALUE_OR_NAME)) {
      if (!/^["']/.test(part) && ++attributes > maxAttributes)
        throw new OnvifXmlError(`the document has more than ${maxAttributes} attributes`)
    }
  }
}

/** Some cameras send the zero that ends a string in C, or a whole buffer. */
function withoutZeros(text: string): string {
  let end = text.length
  while (end > 0 && (text[end - 1] === '\0' || text[end - 1]?.trim() === '')) end--
  return text.slice(0, end)
}

function decode(bytes: Uint8Array, charset?: string): string {
  const first = bytes.findIndex((byte) => byte > SPACE)
  const start = Buffer.from(bytes.subarray(first, first + 128)).toString('latin1')
  const mark = MARKS.find(([bytes]) => start.startsWith(bytes))?.[1]
  const declared = /^<\?xml\s[^>]*?encoding\s*=\s*["']([\w.:-]+)["']/.exec(start)?.[1]
  // .NET writes `utf-16` into each text, and then sends the text as UTF-8.
  const isWide = start[1] === '\0'
  const named = [declared, charset].find(
    (name) => name !== undefined && (isWide || !WIDE_ENCODING.test(name)),
  )
  const encoding = mark ?? named ?? 'utf-8'
  try {
    // Many cameras declare UTF-8 or nothing, and write a name in the encoding of their country. Its
    // bytes become replacement characters; no byte of markup is lost or added.
    const fatal = new TextDecoder(encoding).encoding !== 'utf-8'
    return new TextDecoder(encoding, { fatal }).decode(bytes)
  } catch (error) {
    throw new OnvifXmlError(`the document is not ${encoding}: ${messageOf(error)}`, {
      cause: error,
    })
  }
}

/** Byte order marks, which are stronger than what a document declares. */
const MARKS = [
  ['\xff\xfe', 'utf-16le'],
  ['\xfe\xff', 'utf-16be'],
  ['\xef\xbb\xbf', 'utf-8'],
] as const

/** Encodings whose characters have two or four bytes each. */
const WIDE_ENCODING = /^(?:utf-?(?:16|32)|(?:iso-10646-)?ucs-?[24]|unicode$)/i

/** White space and control characters are not greater. */
const SPACE = 0x20

const NAMED: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" }

/**
 * Characters that XML does not allow (section 2.2), not even as character references. Halves of
 * surrogate pairs are among them.
 */
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
    `${reference} is not one of amp, lt, gt, quot, apos and the numbers of characters`,
  )
}

/**
 * The prefixes that an element declares, and the scope around it. A chain, because copies would
 * cost memory under attack.
 */
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
  for (let link = scope; link !== undefined; link = link.parent) {
    const namespace = link.declared.get(prefix)
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
    // A name without a prefix wins: it is the attribute of the element's own schema.
    if (colon < 0) result.set(name.slice(PREFIX.length), value)
    else if (!result.has(name.slice(colon + 1))) result.set(name.slice(colon + 1), value)
  }
  return result
}
