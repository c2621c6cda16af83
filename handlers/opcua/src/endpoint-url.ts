import net from 'node:net'
import { OpcuaUrlError } from './errors.js'
import type { Target } from './ua-tcp/index.js'

/** OPC 10000-6, 7.1.2.3 allows 4096 bytes; the limit of device ids is lower. */
const MAX_LENGTH = 512

/** The registered port of OPC UA. The URL of a server may omit it. */
const DEFAULT_PORT = 4840

/** The parts of `opc.tcp://host:port/path`. */
export interface EndpointUrl {
  /** A name without a dot at its end, or an address without brackets. */
  readonly host: string
  readonly port: number
  readonly hasPort: boolean
  /** Path and query; empty or `/…`. */
  readonly path: string
}

/** @throws OpcuaUrlError whose message contains the problem and the right form */
export function parseEndpointUrl(text: string): EndpointUrl {
  const problem = (what: string) => {
    const shown = JSON.stringify(shownUrl(text))
    return new OpcuaUrlError(`${shown} ${what}; write opc.tcp://host:port/path`)
  }
  if (text.length > MAX_LENGTH)
    throw problem(`has ${text.length} characters, more than ${MAX_LENGTH}`)
  // A URL parser drops or encodes other characters: one id would have two spellings.
  if (!/^[\x21-\x7e]+$/.test(text)) throw problem('has characters that a URL cannot have')
  if (!/^opc\.tcp:\/\//i.test(text)) throw problem('does not begin with opc.tcp://')
  const url = URL.canParse(text) ? new URL(text) : undefined
  // A dot at the end, the root of the domain name system, does not make another host.
  const hostname = url?.hostname.replace(/\.$/, '') ?? ''
  if (url === undefined || hostname === '') throw problem('is not a URL with a host')
  if (url.username !== '' || url.password !== '')
    throw problem('contains a user, which is not allowed')
  if (url.port === '0') throw problem('has port 0, which is not usable')
  const host = hostname.startsWith('[') ? hostname.slice(1, -1) : hostname
  const hasPort = url.port !== ''
  return {
    host,
    port: hasPort ? Number(url.port) : DEFAULT_PORT,
    hasPort,
    path: url.pathname + url.search,
  }
}

/** A URL for messages: shortened, and without the password that it may contain. */
export function shownUrl(text: string): string {
  const [start, end] = [text.indexOf('//') + 2, text.lastIndexOf('@')]
  const shown = start >= 2 && end >= start ? `${text.slice(0, start)}…${text.slice(end)}` : text
  return shown.length > 100 ? `${shown.slice(0, 100)}…` : shown
}

/** As {@link parseEndpointUrl}; undefined if the text is not such a URL. */
export function readEndpointUrl(text: string): EndpointUrl | undefined {
  const url = urlOrError(text)
  return url instanceof OpcuaUrlError ? undefined : url
}

/** What is wrong with a URL, and what would be right; undefined if the URL is usable. */
export function endpointUrlProblem(text: string): string | undefined {
  const url = urlOrError(text)
  return url instanceof OpcuaUrlError ? url.message : undefined
}

function urlOrError(text: string): EndpointUrl | OpcuaUrlError {
  try {
    return parseEndpointUrl(text)
  } catch (error) {
    if (error instanceof OpcuaUrlError) return error
    throw error
  }
}

/**
 * One text for all spellings of a URL: the case of the host, a dot at its end, the default port,
 * and a slash at the end do not count.
 */
export function urlKey(text: string): string {
  const url = readEndpointUrl(text)
  if (url === undefined) return text
  return `${originOf({ ...url, host: url.host.toLowerCase() })}${url.path.replace(/\/$/, '')}`
}

/** `opc.tcp://host:port`, without a path. */
export function originOf({ host, port }: Pick<EndpointUrl, 'host' | 'port'>): string {
  return `opc.tcp://${net.isIPv6(host) ? `[${host}]` : host}:${port}`
}

/**
 * The URL with an address: the host name must not be resolved again. Undefined if the target has
 * only addresses with an interface, which a URL cannot have.
 */
export function urlByAddress({ addresses, port, endpointUrl }: Target): string | undefined {
  const host = addresses.find((address) => !address.includes('%'))
  return host && `${originOf({ host, port })}${readEndpointUrl(endpointUrl)?.path ?? ''}`
}
