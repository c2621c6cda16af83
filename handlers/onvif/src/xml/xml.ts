import { messageOf } from '@akrijs/sdk'
import { SaxesParser, type SaxesTagPlain } from 'saxes'
import { OnvifXmlError } from '../errors.js'

/** Limits of a document. */
export interface XmlLimits {
  /** @default 262144 */
  readonly maxBytes?: number
  /** The depth of nested elements. @default 64 */
  readonly maxDepth?: number
  /** @default 4000 */
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

  constructor({ tag, scope, children, text }: OpenElement) {
    const { namespace, local } = resolve(tag.name, scope)
    this.name = local
    this.namespace = namespace
    this.attributes = byLocalName(tag.attributes)
    this.children = children
    this.text = text.trim()
    this.#scope = scope
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
  const { maxBytes = 256 * 1024 } = options
  const length = typeof document === 'string' ? Buffer.byteLength(document) : document.byteLength
  if (length > maxBytes)
    throw new OnvifXmlError(`the document has ${length} bytes, more than ${maxBytes}`)
  const text = typeof document === 'string' ? document : decode(document, options.charset)
  try {
    return rootOf(readable(text), options)
  } catch (error) {
    if (OnvifXmlError.is(error)) throw error
    // The parser names elements, and a name can be as long as the document.
    const reason = messageOf(error).slice(0, 150)
    throw new OnvifXmlError(`not well-formed XML, line ${reason}`, { cause: error })
  }
}

/** Escapes a text for elements and attributes. Characters that XML does not allow are left out. */
export function escapeXml(text: string): string {
  return text
    .replace(UNWRITABLE, '')
    .replace(/[&<>"'\r\n\t]/g, (character) => `&#${character.charCodeAt(0)};`)
}

/** An element whose end the parser has not reached. */
interface OpenElement {
  readonly tag: SaxesTagPlain
  readonly scope: NamespaceScope | undefined
  readonly children: XmlElement[]
  text: string
}

/** Stops the parser at the first error, and at the first element or attribute over a limit. */
function rootOf(
  text: string,
  { maxDepth = 64, maxElements = 4000, maxAttributes = 2000 }: XmlLimits,
): XmlElement {
  // Without the namespaces of the parser, which refuse a prefix that is not declared.
  const parser = new SaxesParser()
  const open: OpenElement[] = []
  let root: XmlElement | undefined
  let elements = 0
  let attributes = 0
  const addText = (part: string) => {
    const element = open.at(-1)
    if (element !== undefined) element.text += part
  }
  parser.on('text', addText)
  parser.on('cdata', addText)
  parser.on('doctype', () => {
    throw new OnvifXmlError('the document has a document type')
  })
  parser.on('processinginstruction', () => {
    throw new OnvifXmlError('the document has a processing instruction')
  })
  parser.on('opentagstart', () => {
    if (open.length === maxDepth)
      throw new OnvifXmlError(`elements are nested deeper than ${maxDepth}`)
    if (++elements > maxElements)
      throw new OnvifXmlError(`the document has more than ${maxElements} elements`)
  })
  parser.on('attribute', () => {
    if (++attributes > maxAttributes)
      throw new OnvifXmlError(`the document has more than ${maxAttributes} attributes`)
  })
  parser.on('opentag', (tag) => {
    const scope = scopeOf(tag.attributes, open.at(-1)?.scope)
    open.push({ tag, scope, children: [], text: '' })
  })
  parser.on('closetag', () => {
    const closed = open.pop()
    if (closed === undefined) return
    const element = new XmlElement(closed)
    const parent = open.at(-1)
    if (parent === undefined) root = element
    else parent.children.push(element)
  })
  parser.write(text).close()
  if (root === undefined) throw new OnvifXmlError('the document has no root element')
  return root
}

/**
 * What cameras write around and in a document that XML does not allow: white space before it, zero
 * bytes after it (the end of a string in C, or a whole buffer), and control characters in texts.
 * The declaration goes too: decode() reads it, and XML demands more of it than cameras write.
 */
function readable(document: string): string {
  let end = document.length
  while (end > 0 && (document[end - 1] === '\0' || document[end - 1]?.trim() === '')) end--
  // trimStart() also removes a byte order mark.
  const text = document.slice(0, end).trimStart()
  return text.replace(DECLARATION, '').replace(UNWRITABLE, '\ufffd')
}

const DECLARATION = /^<\?xml\s[^>]*\?>/

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

/**
 * Characters that XML does not allow (section 2.2), not even as character references. Halves of
 * surrogate pairs are among them.
 */
const UNWRITABLE = /[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu

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
  for (const [name, value] of Object.entries(attributes)) {
    if (name === 'xmlns') declared.set('', value)
    else if (name.startsWith('xmlns:')) declared.set(name.slice('xmlns:'.length), value)
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

type Attributes = Readonly<Record<string, string>>

function byLocalName(attributes: Attributes): ReadonlyMap<string, string> {
  const result = new Map<string, string>()
  for (const [name, value] of Object.entries(attributes)) {
    const colon = name.indexOf(':')
    if (name === 'xmlns' || name.startsWith('xmlns:')) continue
    // A name without a prefix wins: it is the attribute of the element's own schema.
    if (colon < 0) result.set(name, value)
    else if (!result.has(name.slice(colon + 1))) result.set(name.slice(colon + 1), value)
  }
  return result
}
