import net from 'node:net'
import { OpcuaUrlError } from './errors.js'

/** OPC 10000-6, 7.1.2.3 allows 4096 bytes; ids of devices end earlier, and nobody writes longer ones. */
const MAX_LENGTH = 512

/** Registered for OPC UA; a URL of a server may leave it out. */
const DEFAULT_PORT = 4840

/** The parts of `opc.tcp://host:port/path`. */
export interface EndpointUrl {
  /** A name, or an address without brackets. */
  readonly host: string
  readonly port: number
  readonly hasPort: boolean
  /** With what is behind it; empty or `/…`. */
  readonly path: string
}

/** @throws OpcuaUrlError saying what is wrong, and what would be right */
export function parseEndpointUrl(text: string): EndpointUrl {
  const shown = JSON.stringify(shownUrl(text))
  const refuse = (why: string) =>
    new OpcuaUrlError(`${shown} ${why}; write opc.tcp://host:port/path`)
  if (text.length > MAX_LENGTH)
    throw refuse(`has ${text.length} characters, more than ${MAX_LENGTH}`)
  // What a URL parser would leave out or encode on the quiet would make two spellings of one id.
  if (!/^[\x21-\x7e]+$/.test(text)) throw refuse('has characters that a URL cannot have')
  if (!/^opc\.tcp:\/\//i.test(text)) throw refuse('does not begin with opc.tcp://')
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || url.hostname === '') throw refuse('is not a URL with a host')
  if (url.username !== '' || url.password !== '')
    throw refuse('names a user, which has no place there')
  if (url.port === '0') throw refuse('has port 0, which nobody can be called on')
  const host = url.hostname.startsWith('[') ? url.hostname.slice(1, -1) : url.hostname
  const hasPort = url.port !== ''
  return {
    host,
    port: hasPort ? Number(url.port) : DEFAULT_PORT,
    hasPort,
    path: url.pathname + url.search,
  }
}

/** For messages: not longer than it has to be, and without a password, which some write into a URL. */
export function shownUrl(text: string): string {
  const shown = text.slice(0, MAX_LENGTH).replace(/\/\/.*@/, '//…@')
  return shown.length > 100 ? `${shown.slice(0, 100)}…` : shown
}

/** As {@link parseEndpointUrl}, or undefined. */
export function readEndpointUrl(text: string): EndpointUrl | undefined {
  try {
    return parseEndpointUrl(text)
  } catch (error) {
    if (error instanceof OpcuaUrlError) return undefined
    throw error
  }
}

/** `opc.tcp://host:port`, without a path. */
export function originOf({ host, port }: Pick<EndpointUrl, 'host' | 'port'>): string {
  return `opc.tcp://${net.isIPv6(host) ? `[${host}]` : host}:${port}`
}
