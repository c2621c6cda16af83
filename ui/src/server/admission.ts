import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'

/** What a request may have. */
export type Admission =
  /** The first visit: the browser gets the cookie, and the address without the token. */
  | { readonly kind: 'welcome'; readonly cookie: string }
  | { readonly kind: 'admitted' }
  | { readonly kind: 'refused'; readonly status: 403 | 405; readonly reason: string }

/** Who is admitted. */
export type Door =
  /** Visitors of this machine who know the token. */
  | { readonly port: number; readonly token: string }
  /** All visitors of these hosts: a proxy in front of the server knows who they are. */
  | { readonly hosts: readonly string[] }

interface Visit {
  readonly method: string | undefined
  readonly headers: IncomingHttpHeaders
  /** The token in the address; null if the address has none. */
  readonly given: string | null
  /** Whether the path takes data. @default false */
  readonly takesPost?: boolean
}

const NO_TOKEN =
  'This page needs the address with its token. akri prints that address when it starts; ' +
  'each start has a new token.'

/**
 * Decides about a request. A page of another site can reach this server through the browser of its
 * visitor: also under a name of its own that resolves to this machine (DNS rebinding).
 */
export function admissionOf(visit: Visit, door: Door): Admission {
  const { method, headers, takesPost } = visit
  if ('hosts' in door) return method === 'GET' ? behindProxy(headers, door.hosts) : ONLY_GET
  return method === 'GET' || (method === 'POST' && takesPost) ? withToken(visit, door) : ONLY_GET
}

const ONLY_GET: Admission = { kind: 'refused', status: 405, reason: 'Only GET is served.' }

interface TokenDoor {
  readonly port: number
  readonly token: string
}

function withToken({ method, headers, given }: Visit, { port, token }: TokenDoor): Admission {
  const hosts = ['127.0.0.1', 'localhost', '[::1]'].map((host) => `${host}:${port}`)
  const { host = '', origin } = headers
  if (!hosts.includes(host)) return refused(`Open this page at http://${hosts[0]}/.`)
  if (origin !== undefined && !hosts.some((each) => origin === `http://${each}`))
    return refused(OTHER_SITE)
  // A form of another site can send neither: browsers ask the server first, and it refuses.
  const isJson = headers['content-type'] === 'application/json'
  if (method === 'POST' && (origin === undefined || !isJson))
    return refused('Only this page sends data.')
  const name = cookieName(port)
  if (given !== null)
    return isSame(given, token)
      ? { kind: 'welcome', cookie: `${name}=${token}; HttpOnly; SameSite=Strict; Path=/` }
      : refused(NO_TOKEN)
  // Another server of this machine is the same site for the cookie.
  const from = headers['sec-fetch-site']
  if (isOtherSite(from)) return refused(OTHER_SITE)
  return isSame(cookieOf(headers.cookie, name) ?? '', token)
    ? { kind: 'admitted' }
    : refused(NO_TOKEN)
}

/** The name of the host in the request is one that the operator gave, whatever it resolves to. */
function behindProxy(headers: IncomingHttpHeaders, hosts: readonly string[]): Admission {
  const { host = '', origin } = headers
  if (!hosts.includes(host.toLowerCase()))
    return refused('The page has no such host: --allowed-host names its hosts.')
  const origins = hosts.flatMap((each) => [`https://${each}`, `http://${each}`])
  if (origin !== undefined && !origins.includes(origin)) return refused(OTHER_SITE)
  // A link, and the way back from a page that signs the visitor in, open the page in a tab.
  const opens = headers['sec-fetch-mode'] === 'navigate' && headers['sec-fetch-dest'] === 'document'
  if (isOtherSite(headers['sec-fetch-site']) && !opens) return refused(OTHER_SITE)
  return { kind: 'admitted' }
}

const OTHER_SITE = 'Pages of other sites get nothing.'

/** @param from what the browser says of the page that sent the request */
function isOtherSite(from: string | string[] | undefined): boolean {
  return from !== undefined && from !== 'same-origin' && from !== 'none'
}

function refused(reason: string): Admission {
  return { kind: 'refused', status: 403, reason }
}

/** A browser has one set of cookies for all ports of a machine. */
function cookieName(port: number): string {
  return `akri-${port}`
}

function cookieOf(header: string | undefined, name: string): string | undefined {
  return header
    ?.split(/; */)
    .find((pair) => pair.startsWith(`${name}=`))
    ?.slice(name.length + 1)
}

/** Compares in a time that tells nothing about the token. */
function isSame(given: string, token: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(given), digest(token))
}
