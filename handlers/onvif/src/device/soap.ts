import { type Clock, messageOf } from '@akrijs/sdk'
import type { Credential } from '../credentials.js'
import {
  OnvifBusyError,
  OnvifFaultError,
  OnvifNotAuthorizedError,
  OnvifReplyError,
  OnvifXmlError,
} from '../errors.js'
import type { Destination } from '../network-policy.js'
import { readFault } from '../xml/soap-fault.js'
import { parseXml, type XmlElement, type XmlLimits } from '../xml/xml.js'
import { readHttpDate } from './http-date.js'
import { chooseChallenge, DigestAnswer } from './http-digest.js'
import { type CertificatePolicy, exchange, type HttpReply } from './http-exchange.js'
import { documentOf } from './reply-body.js'
import { usernameToken } from './username-token.js'

/** One operation of one service of a camera. */
export interface SoapCall {
  readonly namespace: string
  readonly operation: string
  /** The content of the operation's element, with its namespace as the default. @default '' */
  readonly body?: string
  /** Whether a long answer is read, which takes up to some tenths of a second. @default false */
  readonly isLong?: boolean
}

interface SoapSessionOptions extends CertificatePolicy {
  readonly credential?: Credential | undefined
  /** The only address that gets a digest of the password. */
  readonly address: string
  /** Whether to use UsernameToken also if the camera asks for HTTP digest. @default false */
  readonly isTokenOnly?: boolean
  /** For each request, in milliseconds. */
  readonly timeoutMs: number
  readonly signal: AbortSignal
  readonly clock: Pick<Clock, 'monotonicMs' | 'wallMs'>
}

/**
 * The longest reply is that to GetProfiles, from a recorder with many channels. The default limits
 * suit all others.
 */
const LONG_REPLY = {
  maxBytes: 1024 * 1024,
  maxElements: 30_000,
  maxAttributes: 15_000,
} satisfies XmlLimits

/** How requests are written. */
interface Dialect {
  readonly envelope: string
  readonly headers: (action: string) => Readonly<Record<string, string>>
}

const SOAP_12 = 'http://www.w3.org/2003/05/soap-envelope'
const SOAP_11 = 'http://schemas.xmlsoap.org/soap/envelope/'
const SOAP_12_TYPE = 'application/soap+xml; charset=utf-8'

/** The dialect of the specification. */
const STANDARD: Dialect = {
  envelope: SOAP_12,
  headers: (action) => ({ 'content-type': `${SOAP_12_TYPE}; action="${action}"` }),
}
/** Those of other cameras: without `action` in the Content-Type, and SOAP 1.1. */
const OTHER_DIALECTS: readonly Dialect[] = [
  { envelope: SOAP_12, headers: () => ({ 'content-type': SOAP_12_TYPE }) },
  {
    envelope: SOAP_11,
    headers: (action) => ({
      'content-type': 'text/xml; charset=utf-8',
      soapaction: `"${action}"`,
    }),
  },
]

/** Calls the services of one camera, and remembers its dialect and its way of authentication. */
export class SoapSession {
  /**
   * The time of the camera's clock minus the monotonic time, in milliseconds.
   * @default that of the machine's clock
   */
  clockOffsetMs: number
  readonly #options: SoapSessionOptions
  #dateOffsetMs: number | undefined
  /** Undefined before the first reply. */
  #dialect: Dialect | undefined
  #hasAnswered = false
  #isAccepted = false
  #hasRefusedDigest = false
  #digest: { readonly answer: DigestAnswer; used: boolean } | undefined

  constructor(options: SoapSessionOptions) {
    this.#options = options
    const { clock } = options
    this.clockOffsetMs = clock.wallMs() - clock.monotonicMs()
  }

  /** As {@link clockOffsetMs}, by the header `Date` of the first reply with a valid one. */
  get dateOffsetMs(): number | undefined {
    return this.#dateOffsetMs
  }

  /** Whether the camera has answered a call by SOAP, if only with a fault. */
  get hasAnswered(): boolean {
    return this.#hasAnswered
  }

  /** Whether the camera has refused an HTTP digest of the password. */
  get hasRefusedDigest(): boolean {
    return this.#hasRefusedDigest
  }

  /**
   * Calls without a credential. If the camera asks for HTTP digest, {@link call} uses it then: a
   * camera that has HTTP digest answers by a challenge (ONVIF Core Specification 5.9.1).
   * @returns the element `<operation>Response`
   * @throws OnvifUnreachableError, OnvifXmlError, OnvifReplyError, OnvifFaultError,
   * OnvifNotAuthorizedError; the signal's reason
   */
  async callOpenly(to: Destination, call: SoapCall): Promise<XmlElement> {
    const reply =
      this.#dialect === undefined
        ? await this.#firstReply(to, call)
        : await this.#post(to, call, '', {})
    if (this.hasCredentialFor(to)) {
      this.#digest = undefined
      this.#takeChallenge(reply)
    }
    return this.#responseOf(reply, call)
  }

  /** Finds the dialect of the camera. */
  async #firstReply(to: Destination, call: SoapCall): Promise<HttpReply> {
    const reply = await this.#post(to, call, '', {})
    this.#dialect = STANDARD
    if (!refusesDialect(reply, call)) return reply
    for (const dialect of OTHER_DIALECTS) {
      const other = await this.#post(to, call, '', {}, dialect)
      if (refusesDialect(other, call)) continue
      this.#dialect = dialect
      return other
    }
    return reply
  }

  /**
   * Whether the credential may be used: only at the camera's address, and only by https if
   * certificates are verified.
   */
  hasCredentialFor({ address, url }: Destination): boolean {
    const { credential, certificates } = this.#options
    const safe = certificates !== 'verify' || url.protocol === 'https:'
    return credential !== undefined && address === this.#options.address && safe
  }

  /**
   * Calls with the credential: by UsernameToken, or by HTTP digest if the camera asks for it. Until
   * the camera has accepted the credential, call {@link callOpenly} first: a camera may count a
   * refusal of each of the two.
   * @throws as {@link callOpenly}; OnvifNotAuthorizedError also if there is no credential for this
   * destination; OnvifBusyError if the camera has not accepted the credential before, and answers
   * that it is busy
   */
  async call(to: Destination, call: SoapCall): Promise<XmlElement> {
    const { credential } = this.#options
    if (credential === undefined || !this.hasCredentialFor(to)) {
      throw new OnvifNotAuthorizedError(
        `${call.operation}: there is no credential for ${to.url.host}`,
      )
    }
    if (this.#digest === undefined) {
      const time = this.#options.clock.monotonicMs() + this.clockOffsetMs
      const token = usernameToken(credential, time)
      const reply = await this.#post(to, call, token, {})
      if (!this.#isAccepted || !this.#takeChallenge(reply))
        return this.#acceptedResponse(reply, call)
    }
    return this.#callByDigest(to, call)
  }

  async #callByDigest(to: Destination, call: SoapCall): Promise<XmlElement> {
    for (let tries = 0; this.#digest !== undefined; tries++) {
      const digest = this.#digest
      const wasUsed = digest.used
      digest.used = true
      const uri = `${to.url.pathname}${to.url.search}`
      const reply = await this.#post(to, call, '', {
        authorization: digest.answer.authorization({ method: 'POST', uri }),
      })
      if (reply.status !== 401) return this.#acceptedResponse(reply, call)
      this.#digest = undefined
      // The camera refused a new nonce, and does not call it stale: the password is wrong.
      const isRetry = tries === 0 && (wasUsed || chooseChallenge(reply.challenges)?.stale === true)
      if (!isRetry || !this.#takeChallenge(reply)) break
    }
    this.#hasRefusedDigest = true
    throw new OnvifNotAuthorizedError(`${call.operation}: the credential is refused`)
  }

  /** @returns whether the reply has a challenge that can be answered */
  #takeChallenge({ status, challenges }: HttpReply): boolean {
    const { credential, isTokenOnly } = this.#options
    const challenge = status === 401 && !isTokenOnly ? chooseChallenge(challenges) : undefined
    if (challenge === undefined || credential === undefined) return false
    this.#digest = { answer: new DigestAnswer(challenge, credential), used: false }
    return true
  }

  #acceptedResponse(reply: HttpReply, call: SoapCall): XmlElement {
    const response = this.#responseOf(reply, call, { mayBeBusy: !this.#isAccepted })
    this.#isAccepted = true
    return response
  }

  /** @param mayBeBusy whether to throw OnvifBusyError for the statuses of a busy camera */
  #responseOf(reply: HttpReply, call: SoapCall, { mayBeBusy = false } = {}): XmlElement {
    const { operation } = call
    const { status } = reply
    const content = bodyOf(reply, call)
    const isRefused = status === 401 || status === 403
    const isBusy = BUSY.has(status)
    if (content?.name === 'Fault') {
      this.#hasAnswered = true
      const { words, isAboutCredential } = readFault(content)
      const message = `${operation}: ${words}`
      if (isRefused || isAboutCredential) throw new OnvifNotAuthorizedError(message)
      throw isBusy && mayBeBusy ? new OnvifBusyError(message) : new OnvifFaultError(message)
    }
    if (isBusy && mayBeBusy) throw new OnvifBusyError(`${operation}: HTTP status ${status}`)
    if (isRefused) throw new OnvifNotAuthorizedError(`${operation}: HTTP status ${status}`)
    if (!isSuccess(status)) throw failureOf(status, operation)
    if (content?.name !== `${operation}Response`)
      throw new OnvifReplyError(`${operation}: the answer is no ${operation}Response`)
    this.#hasAnswered = true
    return content
  }

  async #post(
    to: Destination,
    call: SoapCall,
    header: string,
    headers: Readonly<Record<string, string>>,
    dialect: Dialect = this.#dialect ?? STANDARD,
  ): Promise<HttpReply> {
    const { namespace, operation } = call
    const request = {
      headers: { ...dialect.headers(`${namespace}/${operation}`), ...headers },
      body: envelope(call, header, dialect),
    }
    const { clock } = this.#options
    const before = clock.monotonicMs()
    const limits = { maxBodyBytes: LONG_REPLY.maxBytes }
    const reply = await exchange(to, request, { ...this.#options, ...limits })
    const date = readHttpDate(reply.date)
    if (date !== undefined) this.#dateOffsetMs ??= date - (before + clock.monotonicMs()) / 2
    return reply
  }
}

function envelope(
  { namespace, operation, body = '' }: SoapCall,
  header: string,
  dialect: Dialect,
): string {
  return (
    `<?xml version="1.0" encoding="UTF-8"?><s:Envelope xmlns:s="${dialect.envelope}">` +
    `${header === '' ? '' : `<s:Header>${header}</s:Header>`}` +
    `<s:Body><${operation} xmlns="${namespace}">${body}</${operation}></s:Body></s:Envelope>`
  )
}

/** HTTP statuses of a camera that could not look at the credential: it starts, or has no time. */
const BUSY: ReadonlySet<number> = new Set([408, 429, 502, 503, 504])

const UNSUPPORTED_MEDIA_TYPE = 415
/** HTTP statuses that say something else than that the request is written in a wrong way. */
const UNDERSTOOD: ReadonlySet<number> = new Set([401, 403, ...BUSY])

/**
 * Whether a camera may refuse the way in which a request is written. Cameras do it by many statuses
 * and faults, such as VersionMismatch.
 */
function refusesDialect(reply: HttpReply, call: SoapCall): boolean {
  const { status } = reply
  try {
    const content = bodyOf(reply, call)
    if (content?.name !== 'Fault') return status >= 400 && !UNDERSTOOD.has(status)
    const { isAboutCredential, isNotSupported } = readFault(content)
    return !(isAboutCredential || isNotSupported || UNDERSTOOD.has(status))
  } catch (error) {
    if (!(OnvifXmlError.is(error) || OnvifReplyError.is(error))) throw error
    return false
  }
}

/** The content of the SOAP body; undefined if the document is no envelope. */
function bodyOf(reply: HttpReply, { operation, isLong }: SoapCall): XmlElement | undefined {
  const limits = isLong ? LONG_REPLY : {}
  try {
    const { bytes, charset } = documentOf(reply, LONG_REPLY.maxBytes)
    const root = parseXml(bytes, { ...limits, charset })
    return root.name === 'Envelope' ? root.find('Body')?.children[0] : undefined
  } catch (error) {
    const type = [OnvifXmlError, OnvifReplyError].find((each) => each.is(error))
    if (type === undefined) throw error
    // The body is a page for people: the status says what is wrong.
    if (!isSuccess(reply.status)) return undefined
    throw new type(`${operation}: ${messageOf(error)}`, { cause: error })
  }
}

function isSuccess(status: number): boolean {
  return status >= 200 && status <= 299
}

function failureOf(status: number, operation: string): Error {
  const why =
    status === UNSUPPORTED_MEDIA_TYPE
      ? '; it refuses SOAP 1.2 (application/soap+xml) and SOAP 1.1 (text/xml)'
      : status >= 300 && status <= 399
        ? '; redirects are not followed'
        : ''
  return new OnvifReplyError(`${operation}: HTTP status ${status}${why}`)
}
