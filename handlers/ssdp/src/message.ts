import { MAX_MESSAGE_BYTES } from './limits.js'

// The messages of the Simple Service Discovery Protocol (UPnP Device Architecture 2.0, part 1).

export const SSDP_PORT = 1900
export const SSDP_GROUP = '239.255.255.250'

/** What a device says of itself, or of a part of itself. */
export interface Announcement {
  readonly kind: 'alive' | 'byebye'
  /** In lower case. */
  readonly uuid: string
  /** The type of the device or service, or `upnp:rootdevice`. */
  readonly target: string
  /** The URL of its description. */
  readonly location?: string | undefined
  /** Its system and its product, such as `Linux/5.4 UPnP/1.0 TV/2.1`. */
  readonly server?: string | undefined
}

/** Undefined if the datagram is no announcement of a device: a search, or another protocol. */
export function readAnnouncement(bytes: Buffer): Announcement | undefined {
  if (bytes.length > MAX_MESSAGE_BYTES) return undefined
  const [first = '', ...lines] = bytes.toString('utf8').split('\r\n')
  const isAnswer = /^HTTP\/1\.[01] 200( |$)/.test(first)
  if (!isAnswer && !/^NOTIFY \* HTTP\/1\.[01]$/.test(first)) return undefined
  const headers = new Map<string, string>()
  for (const line of lines) {
    const colon = line.indexOf(':')
    const name = line.slice(0, Math.max(colon, 0)).toLowerCase()
    // A regular expression for both sides would take 20 s for 4000 spaces.
    const value = line.slice(colon + 1).trim()
    // The first counts. A value goes into the environment of containers.
    if (/^[a-z0-9.-]+$/.test(name) && !headers.has(name) && !/\p{Cc}/u.test(value))
      headers.set(name, value)
  }
  const [, uuid, target] =
    /^uuid:([^:]{1,128})(?:::(.{1,255}))?$/.exec(headers.get('usn') ?? '') ?? []
  if (uuid === undefined) return undefined
  const kind = isAnswer ? 'ssdp:alive' : headers.get('nts')
  if (kind !== 'ssdp:alive' && kind !== 'ssdp:byebye') return undefined
  return {
    kind: kind === 'ssdp:alive' ? 'alive' : 'byebye',
    uuid: uuid.toLowerCase(),
    target: target ?? `uuid:${uuid}`,
    location: headers.get('location'),
    server: headers.get('server'),
  }
}

/** A search. Devices answer within `seconds`, each at a random time. */
export function searchMessage(target: string, seconds: number): Buffer {
  return Buffer.from(
    [
      'M-SEARCH * HTTP/1.1',
      `HOST: ${SSDP_GROUP}:${SSDP_PORT}`,
      'MAN: "ssdp:discover"',
      `MX: ${seconds}`,
      `ST: ${target}`,
      '',
      '',
    ].join('\r\n'),
  )
}
