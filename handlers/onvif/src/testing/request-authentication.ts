import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Credential } from '../credentials.js'
import type { XmlElement } from '../xml/xml.js'

/** The largest difference between the time of a token and the camera's clock, in milliseconds. */
const TOKEN_SKEW_MS = 5000

export type AuthenticationKind = 'username-token' | 'http-digest'

interface AuthenticationOptions {
  readonly credential: Credential
  readonly kinds: readonly AuthenticationKind[]
  readonly algorithms: readonly ('MD5' | 'SHA-256')[]
  /** The number of requests that may use one nonce of HTTP digest. */
  readonly nonceUses: number
  /** The time of the camera's clock, in milliseconds since the epoch. */
  readonly now: () => number
}

/** `challenge`: status 401 with these headers. `fault`: a SOAP fault NotAuthorized. */
export type Verdict =
  | { readonly kind: 'ok' }
  | { readonly kind: 'fault' }
  | { readonly kind: 'challenge'; readonly headers: readonly string[] }

/**
 * Authenticates requests as cameras do (ONVIF Core Specification 5.9). No token and no count of a
 * nonce is accepted twice.
 */
export class RequestAuthentication {
  readonly #options: AuthenticationOptions
  /** When the nonce of each token was used. */
  readonly #tokens = new Map<string, number>()
  /** The nonces of HTTP digest, with the count of the last request. */
  readonly #nonces = new Map<string, { uses: number; last: number }>()

  constructor(options: AuthenticationOptions) {
    this.#options = options
  }

  /** @param header the SOAP header; undefined if the request is not SOAP */
  check(request: IncomingMessage, header: XmlElement | undefined): Verdict {
    const digest = this.#options.kinds.includes('http-digest')
    const { authorization } = request.headers
    if (digest && authorization !== undefined) return this.#checkDigest(request, authorization)
    const token = header?.find('Security', 'UsernameToken')
    if (this.#options.kinds.includes('username-token') && token !== undefined) {
      return { kind: this.#isGenuine(token) ? 'ok' : 'fault' }
    }
    return digest ? this.challenge() : { kind: 'fault' }
  }

  challenge({ stale = false } = {}): Verdict {
    const headers = this.#options.algorithms.map((algorithm) => {
      const nonce = randomBytes(16).toString('hex')
      this.#nonces.set(nonce, { uses: 0, last: 0 })
      // Some clients depend on this order.
      return (
        `Digest realm="Simulated camera", qop="auth", nonce="${nonce}", ` +
        `algorithm=${algorithm}${stale ? ', stale=true' : ''}`
      )
    })
    return { kind: 'challenge', headers }
  }

  #isGenuine(token: XmlElement): boolean {
    const [username, password, nonce, created] = ['Username', 'Password', 'Nonce', 'Created'].map(
      (name) => token.textOf(name) ?? '',
    )
    const { credential, now } = this.#options
    for (const [token, usedAt] of this.#tokens)
      if (Math.abs(now() - usedAt) > 2 * TOKEN_SKEW_MS) this.#tokens.delete(token)
    const isDigest =
      token.find('Password')?.attributes.get('Type')?.endsWith('#PasswordDigest') === true
    const fresh = Math.abs(Date.parse(created ?? '') - now()) <= TOKEN_SKEW_MS
    if (
      !isDigest ||
      !fresh ||
      username !== credential.username ||
      nonce === undefined ||
      this.#tokens.has(nonce)
    )
      return false
    this.#tokens.set(nonce, now())
    const text = Buffer.concat([
      Buffer.from(nonce, 'base64'),
      Buffer.from(`${created}${credential.password}`),
    ])
    return same(password ?? '', createHash('sha1').update(text).digest('base64'))
  }

  #checkDigest({ method = '', url = '' }: IncomingMessage, authorization: string): Verdict {
    const fields = new Map<string, string>()
    for (const [, name, quoted, plain] of authorization.matchAll(
      /([\w*]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s,]+))/g,
    )) {
      if (name !== undefined) fields.set(name, quoted?.replace(/\\(.)/g, '$1') ?? plain ?? '')
    }
    const field = (name: string) => fields.get(name) ?? ''
    const { credential, nonceUses, algorithms } = this.#options
    const nonce = this.#nonces.get(field('nonce'))
    if (nonce === undefined) return this.challenge({ stale: true })
    if (nonce.uses >= nonceUses) return this.challenge({ stale: true })
    const extended = /^UTF-8''(.*)$/i.exec(field('username*'))?.[1]
    const username = extended === undefined ? field('username') : decodeURIComponent(extended)
    const algorithm = algorithms.find((name) => name === (fields.get('algorithm') ?? 'MD5'))
    const count = Number.parseInt(field('nc'), 16)
    if (
      algorithm === undefined ||
      username !== credential.username ||
      field('uri') !== url ||
      !(count > nonce.last)
    ) {
      return this.challenge()
    }
    const hash = (...parts: readonly string[]) =>
      createHash(algorithm === 'MD5' ? 'md5' : 'sha256')
        .update(parts.join(':'))
        .digest('hex')
    const a1 = hash(username, field('realm'), credential.password)
    const expected = hash(
      a1,
      field('nonce'),
      field('nc'),
      field('cnonce'),
      field('qop'),
      hash(method, url),
    )
    if (field('qop') !== 'auth' || field('cnonce') === '' || !same(field('response'), expected))
      return this.challenge()
    nonce.uses++
    nonce.last = count
    return { kind: 'ok' }
  }
}

function same(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)]
  return left.length === right.length && timingSafeEqual(left, right)
}
