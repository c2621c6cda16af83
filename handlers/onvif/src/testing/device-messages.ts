// The messages of WS-Discovery that devices send.
import { encodeMessage } from '../ws-discovery/message.js'
import { escapeXml } from '../xml/xml.js'

/** An announcement to write. Its types have the prefixes `dn` and `tds`. */
export interface AnnouncementText {
  readonly uuid: string
  readonly types: readonly string[]
  readonly scopes: readonly string[]
  readonly xAddrs: readonly string[]
  readonly metadataVersion: number
}

export function encodeProbeMatches(
  messageId: string,
  relatesTo: string,
  matches: readonly AnnouncementText[],
): Buffer {
  const body = matches
    .map((match) => `<d:ProbeMatch>${announcementText(match)}</d:ProbeMatch>`)
    .join('')
  return encodeMessage(
    messageId,
    'ProbeMatches',
    `<d:ProbeMatches>${body}</d:ProbeMatches>`,
    relatesTo,
  )
}

export function encodeResolveMatches(
  messageId: string,
  relatesTo: string,
  match: AnnouncementText,
): Buffer {
  const body = `<d:ResolveMatch>${announcementText(match)}</d:ResolveMatch>`
  return encodeMessage(
    messageId,
    'ResolveMatches',
    `<d:ResolveMatches>${body}</d:ResolveMatches>`,
    relatesTo,
  )
}

export function encodeHello(messageId: string, announcement: AnnouncementText): Buffer {
  return encodeMessage(messageId, 'Hello', `<d:Hello>${announcementText(announcement)}</d:Hello>`)
}

export function encodeBye(messageId: string, uuid: string): Buffer {
  return encodeMessage(messageId, 'Bye', `<d:Bye>${endpointReference(uuid)}</d:Bye>`)
}

function announcementText({
  uuid,
  types,
  scopes,
  xAddrs,
  metadataVersion,
}: AnnouncementText): string {
  return (
    `${endpointReference(uuid)}<d:Types>${escapeXml(types.join(' '))}</d:Types>` +
    `<d:Scopes>${escapeXml(scopes.join(' '))}</d:Scopes>` +
    (xAddrs.length === 0 ? '' : `<d:XAddrs>${escapeXml(xAddrs.join(' '))}</d:XAddrs>`) +
    `<d:MetadataVersion>${metadataVersion}</d:MetadataVersion>`
  )
}

function endpointReference(uuid: string): string {
  return (
    `<a:EndpointReference><a:Address>urn:uuid:${escapeXml(uuid)}</a:Address>` +
    '</a:EndpointReference>'
  )
}
