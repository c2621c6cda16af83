import { OnvifMessageError, OnvifXmlError } from '../errors.js'
import { cameraText } from '../xml/camera-text.js'
import { readFault } from '../xml/soap-fault.js'
import {
  escapeXml,
  parseXml,
  type QualifiedName,
  type XmlElement,
  type XmlLimits,
} from '../xml/xml.js'

// WS-Discovery of April 2005, as the ONVIF core specification uses it (section 7.3).

export const DISCOVERY_PORT = 3702
export const DISCOVERY_GROUP = { IPv4: '239.255.255.250', IPv6: 'ff02::c' } as const

/** What a device announces about itself. */
export interface Announcement {
  /** The address of the endpoint reference, without `urn:` and `uuid:`, in lower case. */
  readonly uuid: string
  /** The same address as the device wrote it. */
  readonly endpoint: string
  readonly types: readonly QualifiedName[]
  readonly scopes: readonly string[]
  /** URLs as the device wrote them. */
  readonly xAddrs: readonly string[]
  readonly metadataVersion: number | undefined
}

export type DiscoveryMessage =
  | { readonly kind: 'Probe'; readonly messageId: string; readonly types: readonly QualifiedName[] }
  /** The question for the URLs of one device. */
  | { readonly kind: 'Resolve'; readonly messageId: string; readonly uuid: string }
  | {
      readonly kind: 'ProbeMatches' | 'ResolveMatches'
      readonly relatesTo: string
      readonly matches: readonly Announcement[]
    }
  | { readonly kind: 'Hello' | 'Bye'; readonly announcement: Announcement }
  /** A SOAP fault, in the words of the sender. */
  | { readonly kind: 'Fault'; readonly words: string }
  /** A message of a kind that the handler does not use. */
  | { readonly kind: 'other'; readonly name: string }

/**
 * The types that Probes ask for. Some devices compare the texts, so the prefixes are those that
 * they know.
 */
export const PROBED_TYPES = ['dn:NetworkVideoTransmitter', 'tds:Device'] as const
type ProbedType = (typeof PROBED_TYPES)[number]

/** Limits of one message. The rest of a longer list is not read. */
const MAX_MATCHES = 64
const MAX_TYPES = 32
const MAX_SCOPES = 256
const MAX_XADDRS = 8
const MAX_UUID_LENGTH = 256
const MAX_XADDR_LENGTH = 1024
/** The limit of the original Akri. Datagrams of cameras have at most a tenth of that. */
export const MAX_DATAGRAM_BYTES = 16 * 1024
const LIMITS = {
  maxBytes: MAX_DATAGRAM_BYTES,
  maxDepth: 32,
  maxElements: 1500,
  maxAttributes: 500,
} satisfies XmlLimits

/** @throws OnvifMessageError */
export function decodeMessage(datagram: Uint8Array): DiscoveryMessage {
  const envelope = envelopeOf(datagram)
  const [content] = envelope.find('Body')?.children ?? []
  // The body tells the kind of a message: Action headers of real devices are often wrong.
  switch (content?.name) {
    case 'ProbeMatches':
    case 'ResolveMatches': {
      const kind = content.name
      const relatesTo = envelope.textOf('Header', 'RelatesTo')
      if (relatesTo === undefined) throw new OnvifMessageError(`${kind} has no RelatesTo`)
      const elements = content.all(kind === 'ProbeMatches' ? 'ProbeMatch' : 'ResolveMatch')
      const matches = elements.slice(0, MAX_MATCHES).flatMap((each) => announcementOf(each) ?? [])
      if (elements.length === 0) throw new OnvifMessageError(`${kind} is empty`)
      if (matches.length === 0)
        throw new OnvifMessageError(`${kind} has no usable endpoint reference`)
      return { kind, relatesTo: bareUuid(relatesTo), matches }
    }
    case 'Hello':
    case 'Bye': {
      const announcement = announcementOf(content)
      if (announcement === undefined)
        throw new OnvifMessageError(`${content.name} has no usable endpoint reference`)
      return { kind: content.name, announcement }
    }
    case 'Probe': {
      const messageId = envelope.textOf('Header', 'MessageID')
      if (messageId === undefined) throw new OnvifMessageError('Probe has no MessageID')
      return { kind: 'Probe', messageId, types: typesOf(content) }
    }
    case 'Resolve': {
      const messageId = envelope.textOf('Header', 'MessageID')
      if (messageId === undefined) throw new OnvifMessageError('Resolve has no MessageID')
      const endpoint = content.textOf('EndpointReference', 'Address') ?? ''
      return { kind: 'Resolve', messageId, uuid: bareUuid(endpoint) }
    }
    case 'Fault':
      return { kind: 'Fault', words: readFault(content).words }
    default:
      return { kind: 'other', name: cameraText(content?.name ?? 'nothing') }
  }
}

/** Whether an announcement comes from an ONVIF device: other devices answer any Probe as well. */
export function isOnvifDevice({ types, scopes }: Announcement): boolean {
  const named = types.some(
    ({ namespace, local }) =>
      local === 'NetworkVideoTransmitter' ||
      (local === 'Device' && (namespace ?? NAMESPACES.tds) === NAMESPACES.tds),
  )
  return named || (types.length === 0 && scopes.some((scope) => scope.startsWith('onvif://')))
}

/** Devices and clients write the prefix of a UUID in several ways. */
export function bareUuid(address: string): string {
  return address
    .trim()
    .toLowerCase()
    .replace(/^urn:/, '')
    .replace(/^uuid:/, '')
}

/** @param messageId as for {@link encodeMessage} */
export function encodeProbe(messageId: string, type: ProbedType): Buffer {
  return encodeMessage(messageId, 'Probe', `<d:Probe><d:Types>${type}</d:Types></d:Probe>`)
}

/** @param messageId as for {@link encodeMessage} */
export function encodeResolve(messageId: string, endpoint: string): Buffer {
  const address = `<a:Address>${escapeXml(endpoint)}</a:Address>`
  const body = `<d:Resolve><a:EndpointReference>${address}</a:EndpointReference></d:Resolve>`
  return encodeMessage(messageId, 'Resolve', body)
}

const NAMESPACES = {
  s: 'http://www.w3.org/2003/05/soap-envelope',
  a: 'http://schemas.xmlsoap.org/ws/2004/08/addressing',
  d: 'http://schemas.xmlsoap.org/ws/2005/04/discovery',
  dn: 'http://www.onvif.org/ver10/network/wsdl',
  tds: 'http://www.onvif.org/ver10/device/wsdl',
} as const
const DECLARED = Object.entries(NAMESPACES)
  .map(([prefix, namespace]) => ` xmlns:${prefix}="${namespace}"`)
  .join('')
const EVERY_DEVICE = 'urn:schemas-xmlsoap-org:ws:2005:04:discovery'
const ANONYMOUS = `${NAMESPACES.a}/role/anonymous`

function envelopeOf(datagram: Uint8Array): XmlElement {
  try {
    return parseXml(datagram, LIMITS)
  } catch (error) {
    if (!OnvifXmlError.is(error)) throw error
    throw new OnvifMessageError(`datagram is not XML: ${error.message}`, { cause: error })
  }
}

/** Undefined if the announcement has no usable UUID. */
function announcementOf(element: XmlElement): Announcement | undefined {
  const endpoint = element.textOf('EndpointReference', 'Address') ?? ''
  const uuid = bareUuid(endpoint)
  if (!PRINTABLE.test(uuid) || uuid.length > MAX_UUID_LENGTH) return undefined
  const version = Number(element.textOf('MetadataVersion') ?? Number.NaN)
  return {
    uuid,
    endpoint,
    types: typesOf(element),
    scopes: words(element.textOf('Scopes')).slice(0, MAX_SCOPES),
    xAddrs: words(element.textOf('XAddrs'))
      .filter((xAddr) => xAddr.length <= MAX_XADDR_LENGTH && PRINTABLE.test(xAddr))
      .slice(0, MAX_XADDRS),
    metadataVersion: Number.isSafeInteger(version) ? version : undefined,
  }
}

/** UUIDs and URLs become parts of ids and environment variables. */
const PRINTABLE = /^[\x21-\x7e]+$/

function typesOf(element: XmlElement): QualifiedName[] {
  const types = element.find('Types')
  if (types === undefined) return []
  return words(types.text)
    .slice(0, MAX_TYPES)
    .map((name) => types.qualifiedName(name))
}

function words(text = ''): string[] {
  return text.split(/\s+/).filter((word) => word !== '')
}

/**
 * @param messageId a UUID; repetitions of a message have the same
 * @param relatesTo the MessageID of the message that is answered, as it was written
 */
export function encodeMessage(
  messageId: string,
  action: string,
  body: string,
  relatesTo?: string,
): Buffer {
  const answers =
    relatesTo === undefined ? '' : `<a:RelatesTo>${escapeXml(relatesTo)}</a:RelatesTo>`
  const to = relatesTo === undefined ? EVERY_DEVICE : ANONYMOUS
  // The header has no attributes: some devices ignore an Action or To with mustUnderstand.
  const header =
    `<a:MessageID>urn:uuid:${messageId}</a:MessageID>${answers}<a:To>${to}</a:To>` +
    `<a:Action>${NAMESPACES.d}/${action}</a:Action>`
  return Buffer.from(
    '<?xml version="1.0" encoding="UTF-8"?>\n' +
      `<s:Envelope${DECLARED}><s:Header>${header}</s:Header>` +
      `<s:Body>${body}</s:Body></s:Envelope>`,
  )
}
