import { createHash, randomBytes } from 'node:crypto'
import type { Credential } from '../credentials.js'

/** What a server that wants HTTP digest authentication (RFC 7616) tells about it. */
export interface DigestChallenge {
  readonly realm: string
  readonly nonce: string
  readonly opaque: string | undefined
  readonly algorithm: DigestAlgorithm
  /** Whether `qop` has `auth`; servers older than RFC 2617 have no `qop`. */
  readonly qop: boolean
  /** The nonce alone was wrong: it has been used up. */
  readonly stale: boolean
}

export type DigestAlgorithm = 'MD5' | 'MD5-sess' | 'SHA-256' | 'SHA-256-sess'

/** From the best one on. */
const ALGORITHMS: readonly DigestAlgorithm[] = ['SHA-256', 'SHA-256-sess', 'MD5', 'MD5-sess']

/** The best of the challenges that can be answered. Basic authentication cannot: it gives the password away. */
export function chooseChallenge(headers: readonly string[]): DigestChallenge | undefined {
  const challenges = headers.flatMap(readChallenges)
  return ALGORITHMS.flatMap((algorithm) =>
    challenges.filter((challenge) => challenge.algorithm === algorithm),
  )[0]
}

export interface DigestRequest {
  readonly method: string
  /** Path and query, as in the first line of the request. */
  readonly uri: string
}

/** Answers a challenge, for one request after the other. */
export class DigestAnswer {
  readonly #challenge: DigestChallenge
  readonly #credential: Credential
  readonly #newNonce: () => string
  #count = 0

  /** @param newNonce the client's own part. @default 16 random bytes */
  constructor(
    challenge: DigestChallenge,
    credential: Credential,
    newNonce = () => randomBytes(16).toString('base64url'),
  ) {
    this.#challenge = challenge
    this.#credential = credential
    this.#newNonce = newNonce
  }

  /** The header `Authorization` of a request. */
  authorization({ method, uri }: DigestRequest): string {
    const { realm, nonce, opaque, algorithm, qop } = this.#challenge
    const { username, password } = this.#credential
    const cnonce = this.#newNonce()
    const nc = (++this.#count).toString(16).padStart(8, '0')
    const hash = (...parts: readonly string[]) =>
      createHash(algorithm.startsWith('MD5') ? 'md5' : 'sha256')
        .update(parts.join(':'))
        .digest('hex')
    // Node gives bytes of headers as Latin-1.
    const secret = hash(username, Buffer.from(realm, 'latin1').toString('utf8'), password)
    const a1 = algorithm.endsWith('-sess') ? hash(secret, nonce, cnonce) : secret
    const a2 = hash(method, uri)
    const response = qop ? hash(a1, nonce, nc, cnonce, 'auth', a2) : hash(a1, nonce, a2)
    return `Digest ${[
      userField(username),
      `realm=${quoted(realm)}`,
      `nonce=${quoted(nonce)}`,
      `uri=${quoted(uri)}`,
      `response="${response}"`,
      `algorithm=${algorithm}`,
      ...(qop ? ['qop=auth', `nc=${nc}`] : []),
      ...(qop || algorithm.endsWith('-sess') ? [`cnonce=${quoted(cnonce)}`] : []),
      ...(opaque === undefined ? [] : [`opaque=${quoted(opaque)}`]),
    ].join(', ')}`
  }
}

/** Section 3.4: what a quoted text cannot hold is written as in RFC 5987. */
function userField(username: string): string {
  if (/^[\x20-\x7e]*$/.test(username)) return `username=${quoted(username)}`
  const bytes = [...Buffer.from(username)].map((byte) => {
    const character = String.fromCharCode(byte)
    return /[A-Za-z0-9]/.test(character)
      ? character
      : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
  })
  return `username*=UTF-8''${bytes.join('')}`
}

function quoted(text: string): string {
  return `"${text.replace(/["\\]/g, '\\$&')}"`
}

/** A parameter, the name of a scheme, or a comma. */
const PART = /\s*(?:([\w*-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",]+))|([\w-]+)|,)/y

/** One header may hold challenges of several schemes, with commas between them and within them. */
function readChallenges(header: string): DigestChallenge[] {
  const schemes: { readonly scheme: string; readonly parameters: Map<string, string> }[] = []
  PART.lastIndex = 0
  for (let part = PART.exec(header); part !== null; part = PART.exec(header)) {
    const [, name, text, token, scheme] = part
    if (scheme !== undefined) schemes.push({ scheme: scheme.toLowerCase(), parameters: new Map() })
    else if (name !== undefined)
      schemes
        .at(-1)
        ?.parameters.set(name.toLowerCase(), text?.replace(/\\(.)/g, '$1') ?? token ?? '')
  }
  return schemes.flatMap(({ scheme, parameters }) =>
    scheme === 'digest' ? digestOf(parameters) : [],
  )
}

function digestOf(parameters: ReadonlyMap<string, string>): DigestChallenge[] {
  const [realm, nonce, qop] = ['realm', 'nonce', 'qop'].map((name) => parameters.get(name))
  const wanted = (parameters.get('algorithm') ?? 'MD5').toLowerCase()
  const algorithm = ALGORITHMS.find((one) => one.toLowerCase() === wanted)
  const auth =
    qop === undefined || qop.split(',').some((one) => one.trim().toLowerCase() === 'auth')
  if (realm === undefined || nonce === undefined || algorithm === undefined || !auth) return []
  const stale = parameters.get('stale')?.toLowerCase() === 'true'
  return [
    { realm, nonce, opaque: parameters.get('opaque'), algorithm, qop: qop !== undefined, stale },
  ]
}
