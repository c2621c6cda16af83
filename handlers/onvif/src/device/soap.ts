import type { Clock } from '@akrijs/sdk'
import type { Credential } from '../credentials.js'
import {
  OnvifFaultError,
  OnvifNotAuthorizedError,
  OnvifReplyError,
  OnvifXmlError,
} from '../errors.js'
import type { Destination } from '../network-policy.js'
import { parseXml, type XmlElement, type XmlLimits } from '../xml.js'
import { cameraText } from './camera-text.js'
import { chooseChallenge, DigestAnswer } from './http-digest.js'
import { type CertificatePolicy, exchange, type HttpReply } from './http-exchange.js'
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
  /** For each request, in milliseconds. */
  readonly timeoutMs: number
  readonly signal: AbortSignal
  readonly clock: Pick<Clock, 'monotonicMs'>
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

/** Calls the services of one camera, and remembers its way of authentication. */
export class SoapSession {
  /** How far the camera's clock is ahead of the handler's, in milliseconds. */
  clockOffsetMs = 0
  readonly #options: SoapSessionOptions
  #digest: { readonly answer: DigestAnswer; used: boolean } | undefined

  constructor(options: SoapSessionOptions) {
    this.#options = options
  }

  /**
   * Calls without a credential.
   * @returns the element `<operation>Response`
   * @throws OnvifUnreachableError, OnvifXmlError, OnvifReplyError, OnvifFaultError,
   * OnvifNotAuthorizedError; the signal's reason
   */
  async callOpenly(to: Destination, call: SoapCall): Promise<XmlElement> {
    return responseOf(await this.#post(to, call, '', {}), call)
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
   * Calls with the credential: by UsernameToken, or by HTTP digest if the camera asks for it.
   * @throws as {@link callOpenly}; OnvifNotAuthorizedError if there is no credential for this
   * destination
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
      if (!this.#takeChallenge(reply, credential)) return responseOf(reply, call)
    }
    return this.#callByDigest(to, call, credential)
  }

  async #callByDigest(
    to: Destination,
    call: SoapCall,
    credential: Credential,
  ): Promise<XmlElement> {
    for (let tries = 0; this.#digest !== undefined; tries++) {
      const digest = this.#digest
      const wasUsed = digest.used
      digest.used = true
      const uri = `${to.url.pathname}${to.url.search}`
      const reply = await this.#post(to, call, '', {
        authorization: digest.answer.authorization({ method: 'POST', uri }),
      })
      if (reply.status !== 401) return responseOf(reply, call)
      this.#digest = undefined
      // The camera refused a new nonce, and does not call it stale: the password is wrong.
      const isRetry = tries === 0 && (wasUsed || chooseChallenge(reply.challenges)?.stale === true)
      if (!isRetry || !this.#takeChallenge(reply, credential)) break
    }
    throw new OnvifNotAuthorizedError(`${call.operation}: the credential is refused`)
  }

  /** @returns whether the reply has a challenge that can be answered */
  #takeChallenge({ status, challenges }: HttpReply, credential: Credential): boolean {
    const challenge = status === 401 ? chooseChallenge(challenges) : undefined
    if (challenge !== undefined)
      this.#digest = { answer: new DigestAnswer(challenge, credential), used: false }
    return challenge !== undefined
  }

  #post(
    to: Destination,
    call: SoapCall,
    header: string,
    headers: Readonly<Record<string, string>>,
  ): Promise<HttpReply> {
    const { namespace, operation } = call
    const type = `application/soap+xml; charset=utf-8; action="${namespace}/${operation}"`
    const request = {
      headers: { 'content-type': type, ...headers },
      body: envelope(call, header),
    }
    return exchange(to, request, { ...this.#options, maxBodyBytes: LONG_REPLY.maxBytes })
  }
}

function envelope({ namespace, operation, body = '' }: SoapCall, header: string): string {
  return (
    '<?xml version="1.0" encoding="UTF-8"?><s:Envelope ' +
    'xmlns:s="http://www.w3.org/2003/05/soap-envelope">' +
    `${header === '' ? '' : `<s:Header>${header}</s:Header>`}` +
    `<s:Body><${operation} xmlns="${namespace}">${body}</${operation}></s:Body></s:Envelope>`
  )
}

function responseOf({ status, body }: HttpReply, call: SoapCall): XmlElement {
  const { operation } = call
  const content = bodyOf(body, status, call)
  if (content?.name === 'Fault') throw faultOf(content, operation)
  if (status < 200 || status > 299) throw failureOf(status, operation)
  if (content?.name === `${operation}Response`) return content
  throw new OnvifReplyError(`${operation}: the answer is no ${operation}Response`)
}

/** The content of the SOAP body; undefined if the document is no envelope. */
function bodyOf(
  body: Buffer,
  status: number,
  { operation, isLong }: SoapCall,
): XmlElement | undefined {
  try {
    const root = parseXml(body, isLong ? LONG_REPLY : {})
    return root.name === 'Envelope' ? root.find('Body')?.children[0] : undefined
  } catch (error) {
    // The body is a page for people: the status says what is wrong.
    if (status < 200 || status > 299) throw failureOf(status, operation)
    throw OnvifXmlError.is(error)
      ? new OnvifXmlError(`${operation}: ${error.message}`, { cause: error })
      : error
  }
}

function failureOf(status: number, operation: string): Error {
  if (status === 401 || status === 403)
    return new OnvifNotAuthorizedError(`${operation}: HTTP status ${status}`)
  const redirected = status >= 300 && status <= 399 ? '; redirects are not followed' : ''
  return new OnvifReplyError(`${operation}: HTTP status ${status}${redirected}`)
}

/** Fault codes of ONVIF, and of Web Services Security. */
const NOT_AUTHORIZED: ReadonlySet<string> = new Set([
  'NotAuthorized',
  'InvalidSecurity',
  'InvalidSecurityToken',
  'FailedAuthentication',
  'FailedCheck',
  'MessageExpired',
])

function faultOf(fault: XmlElement, operation: string): Error {
  const codes: string[] = []
  const add = (code: string | undefined) =>
    code !== undefined && codes.push(fault.qualifiedName(code).local)
  for (let code = fault.find('Code'); code !== undefined; code = code.find('Subcode'))
    add(code.textOf('Value'))
  // SOAP 1.1: a code may have parts, separated by dots.
  for (const code of fault.textOf('faultcode')?.split('.') ?? []) add(code)
  const reason = fault.textOf('Reason', 'Text') ?? fault.textOf('faultstring')
  const message = cameraText(
    `${operation}: ${codes.join(', ') || 'a fault'}${reason === undefined ? '' : `: ${reason}`}`,
  )
  return codes.some((code) => NOT_AUTHORIZED.has(code))
    ? new OnvifNotAuthorizedError(message)
    : new OnvifFaultError(message)
}
