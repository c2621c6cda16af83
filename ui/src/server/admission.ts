import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'

/** What a request may have. */
export type Admission =
  /** The first visit: the browser gets the cookie, and the address without the token. */
  | { readonly kind: 'welcome'; readonly cookie: string }
  | { readonly kind: 'admitted' }
  | { readonly kind: 'refused'; readonly status: 403 | 405; readonly reason: string }

interface Door {
  readonly port: number
  readonly token: string
}

interface Visit {
  readonly method: string | undefined
  readonly headers: IncomingHttpHeaders
  /** The token in the address; null if the address has none. */
  readonly given: string | null
}

const NO_TOKEN =
  'This page needs the address with its token. akri run prints that address when it starts; ' +
  'each start has a new token.'

/**
 * Decides about a request. A page of another site can reach this server through the browser of its
 * visitor: also under a name of its own that resolves to this machine (DNS rebinding).
 */
export function admissionOf({ method, headers, given }: Visit, { port, token }: Door): Admission {
  if (method !== 'GET') return { kind: 'refused', status: 405, reason: 'Only GET is served.' }
  const hosts = ['127.0.0.1', 'localhost', '[::1]'].map((host) => `${host}:${port}`)
  const { host = '', origin } = headers
  if (!hosts.includes(host)) return refused(`Open this page at http://${hosts[0]}/.`)
  if (origin !== undefined && !hosts.some((each) => origin === `http://${each}`))
    return refused('Pages of other sites get nothing.')
  const name = cookieName(port)
  if (given !== null)
    return isSame(given, token)
      ? { kind: 'welcome', cookie: `${name}=${token}; HttpOnly; SameSite=Strict; Path=/` }
      : refused(NO_TOKEN)
  // Another server of this machine is the same site for the cookie.
  const from = headers['sec-fetch-site']
  if (from !== undefined && from !== 'same-origin' && from !== 'none')
    return refused('Pages of other sites get nothing.')
  return isSame(cookieOf(headers.cookie, name) ?? '', token)
    ? { kind: 'admitted' }
    : refused(NO_TOKEN)
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
