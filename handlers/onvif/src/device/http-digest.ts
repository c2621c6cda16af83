import { createHash, randomBytes } from 'node:crypto'
import type { Credential } from '../credentials.js'

/** A challenge of HTTP digest authentication (RFC 7616). */
interface DigestChallenge {
  readonly realm: string
  readonly nonce: string
  readonly opaque: string | undefined
  readonly algorithm: DigestAlgorithm
  /** Whether there is a `qop`: servers older than RFC 2617 have none. */
  readonly qop: boolean
  /** Whether only the nonce was wrong: it has expired. */
  readonly stale: boolean
}

type DigestAlgorithm = 'MD5' | 'MD5-sess' | 'SHA-256' | 'SHA-256-sess'

/** The strongest first. */
const ALGORITHMS: readonly DigestAlgorithm[] = ['SHA-256', 'SHA-256-sess', 'MD5', 'MD5-sess']

/**
 * The strongest digest challenge. Basic authentication is never answered: it sends the password.
 */
export function chooseChallenge(headers: readonly string[]): DigestChallenge | undefined {
  const challenges = headers.flatMap(readChallenges)
  return ALGORITHMS.flatMap((algorithm) =>
    challenges.filter((challenge) => challenge.algorithm === algorithm),
  )[0]
}

interface DigestRequest {
  readonly method: string
  /** Path and query as in the request line. */
  readonly uri: string
}

/** Answers one challenge for any number of requests. */
export class DigestAnswer {
  readonly #challenge: DigestChallenge
  readonly #credential: Credential
  readonly #newNonce: () => string
  #count = 0

  /** @param newNonce makes the nonces of the client */
  constructor(
    challenge: DigestChallenge,
    credential: Credential,
    newNonce = () => randomBytes(16).toString('base64url'),
  ) {
    this.#challenge = challenge
    this.#credential = credential
    this.#newNonce = newNonce
  }

  /** The value of the header `Authorization`. */
  authorization({ method, uri }: DigestRequest): string {
    const { realm, nonce, opaque, algorithm, qop } = this.#challenge
    const { username, password } = this.#credential
    const cnonce = this.#newNonce()
    const nc = (++this.#count).toString(16).padStart(8, '0')
    // Node.js decodes headers as Latin-1: each character of the challenge stands for one byte.
    const hash = (...parts: readonly string[]) =>
      createHash(algorithm.startsWith('MD5') ? 'md5' : 'sha256')
        .update(parts.join(':'), 'latin1')
        .digest('hex')
    const secret = hash(utf8Bytes(username), realm, utf8Bytes(password))
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

/** The bytes of UTF-8 (section 4), each as a character. */
function utf8Bytes(text: string): string {
  return Buffer.from(text).toString('latin1')
}

/**
 * Section 3.4: a name with characters that a quoted string cannot have is written as in RFC 5987.
 */
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

/** A parameter, a scheme name, or a comma. */
const PART = /\s*(?:([\w*-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",]+))|([\w-]+)|,)/y

/**
 * One header can have challenges of several schemes. Commas separate challenges, and also the
 * parameters of a challenge.
 */
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
  const name = (parameters.get('algorithm') ?? 'MD5').toLowerCase()
  const algorithm = ALGORITHMS.find((supported) => supported.toLowerCase() === name)
  const auth =
    qop === undefined || qop.split(',').some((option) => option.trim().toLowerCase() === 'auth')
  if (realm === undefined || nonce === undefined || algorithm === undefined || !auth) return []
  const stale = parameters.get('stale')?.toLowerCase() === 'true'
  return [
    { realm, nonce, opaque: parameters.get('opaque'), algorithm, qop: qop !== undefined, stale },
  ]
}
