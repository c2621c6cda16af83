import { AkriError, aborted, type Clock, type Logger, withTimeLimit } from '@akrijs/sdk'
import type { DeviceCredentials } from '@akrijs/sdk/network'
import type { Credential } from '../credentials.js'
import {
  OnvifAddressError,
  OnvifBusyError,
  OnvifCredentialRefusedError,
  OnvifFaultError,
  OnvifNotAuthorizedError,
  OnvifReplyError,
  OnvifUnreachableError,
  OnvifXmlError,
} from '../errors.js'
import type { Destination, NetworkPolicy } from '../network-policy.js'
import type { XmlElement } from '../xml/xml.js'
import {
  type DeviceInformation,
  GET_CAPABILITIES,
  GET_DEVICE_INFORMATION,
  GET_NETWORK_INTERFACES,
  GET_SCOPES,
  GET_SERVICES,
  GET_SYSTEM_DATE_AND_TIME,
  readCapabilities,
  readInformation,
  readNetworkInterfaces,
  readScopes,
  readServices,
  readTime,
} from './device-operations.js'
import type { CertificatePolicy } from './http-exchange.js'
import { MEDIA_SERVICES, type MediaService, readProfiles, readUri } from './media-operations.js'
import { hasPassword } from './published-password.js'
import type { CredentialScheme, RefusedCredentials } from './refused-credentials.js'
import { type SoapCall, SoapSession } from './soap.js'

/** The options that all cameras share. */
export interface CameraOptions extends CertificatePolicy {
  /** The addresses that cameras, their media services, streams and snapshots may have. */
  readonly policy: NetworkPolicy
  /** Whether to read profiles, and the URIs of streams and snapshots. @default false */
  readonly mediaProfiles?: boolean
}

export interface CameraTimeouts {
  /** For each request, in milliseconds. @default 3000 */
  readonly requestTimeoutMs?: number
  /** For all requests to one camera together, in milliseconds. @default 15000 */
  readonly timeoutMs?: number
}

export interface CameraRequest {
  /** The URL of the device service. */
  readonly url: string
  /** The UUID of the camera, which selects the credential. */
  readonly uuid: string
  /** The interface that reaches a link-local IPv6 address. */
  readonly zone?: string | undefined
  readonly credentials: DeviceCredentials
  /** Credentials that are not tried again yet. Refusals of this request are added. */
  readonly refused: RefusedCredentials
  readonly options: CameraOptions
  readonly signal: AbortSignal
  readonly log: Logger
  readonly clock: Pick<Clock, 'monotonicMs' | 'wallMs'>
  /**
   * Takes each answer of the camera that has no facts, in the words of the camera. A refusal of the
   * credential is OnvifNotAuthorizedError.
   */
  readonly onFailure?: ((error: AkriError) => void) | undefined
}

interface MediaProfile {
  readonly token: string
  readonly name: string
  /** An RTSP URI. */
  readonly streamUri?: string | undefined
  /** An HTTP URI of a JPEG picture. */
  readonly snapshotUri?: string | undefined
}

/**
 * The facts that a camera tells about itself. A fact that the camera does not tell, or refuses to
 * tell, is missing.
 */
export interface CameraFacts extends DeviceInformation {
  /**
   * `none`: the camera answered without a credential. `accepted`: it accepted the credential.
   * `required`: it asks for a credential, and there is none, or its answers to the credential speak
   * of something else. `refused`: it refused the credential.
   */
  readonly authentication: 'none' | 'accepted' | 'required' | 'refused'
  readonly ipAddress?: string | undefined
  readonly macAddress?: string | undefined
  readonly scopes?: readonly string[]
  /** Only with `mediaProfiles`. */
  readonly profiles?: readonly MediaProfile[]
  /** Media services, streams and snapshots that cannot be reached, with the reasons. */
  readonly unreachable?: readonly string[] | undefined
  /** Why facts may be missing: the camera stopped answering during the query. */
  readonly incomplete?: AkriError
}

/**
 * Reads the facts of a camera from its device service. A wrong credential is tried once, because
 * cameras lock users out. After a refusal, the other facts are read without a credential. A camera
 * that is too busy to check the credential has not answered.
 * @throws OnvifAddressError; what {@link SoapSession.callOpenly} throws if there is no camera at
 * the URL; the signal's reason
 */
export function readCamera(
  request: CameraRequest,
  { requestTimeoutMs = 3000, timeoutMs = 15_000 }: CameraTimeouts = {},
): Promise<CameraFacts> {
  const { url, signal } = request
  let interview: Interview | undefined
  const read = async (limited: AbortSignal) => {
    interview = await Interview.open(request, requestTimeoutMs, limited)
    await interview.identify()
    await interview.run()
    return interview.facts
  }
  return withTimeLimit(timeoutMs, signal, (limited) =>
    // The lookup of a host name does not listen to the signal.
    Promise.race([read(limited), rejection(limited)]),
  ).catch((error: unknown) => {
    signal.throwIfAborted()
    const failure = isTimeout(error)
      ? new OnvifUnreachableError(`${url}: answers took longer than ${timeoutMs} ms`, {
          cause: error,
        })
      : error
    const isSilent = OnvifUnreachableError.is(failure) || OnvifBusyError.is(failure)
    if (!interview?.isCamera || !isSilent) throw failure
    return { ...interview.facts, incomplete: failure }
  })
}

async function rejection(signal: AbortSignal): Promise<never> {
  await aborted(signal)
  throw signal.reason
}

function isTimeout(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'TimeoutError'
}

interface InterviewOptions extends CameraRequest {
  readonly session: SoapSession
  readonly home: Destination
  readonly credential: Credential | undefined
  /** The schemes by which the camera has refused the credential before. */
  readonly refusedSchemes: readonly CredentialScheme[]
}

/** A time for tokens. */
interface TokenTime {
  readonly scheme: CredentialScheme
  /** The time minus the monotonic time, in milliseconds. */
  readonly offsetMs: number
}

/** A clock that is some minutes wrong makes no other time; zones differ from UTC by more. */
const MIN_DIFFERENCE_MS = 15 * 60_000
/** Tokens with different times that a camera gets at once: cameras lock users out. */
const MAX_TOKENS = 2

/** Asks one question after the other: a camera serves few requests at a time. */
class Interview {
  readonly #options: InterviewOptions
  #authentication: CameraFacts['authentication']
  #facts: Omit<CameraFacts, 'authentication'> = {}
  #firstFailure: AkriError | undefined
  /** The times that tokens may have, the next first. */
  #times: readonly TokenTime[] = []

  private constructor(options: InterviewOptions) {
    this.#options = options
    const { refused, home, credential } = options
    this.#authentication =
      credential !== undefined && refused.has(home, credential) ? 'refused' : 'none'
  }

  static async open(
    request: CameraRequest,
    timeoutMs: number,
    signal: AbortSignal,
  ): Promise<Interview> {
    const { url, uuid, zone, credentials, refused, options, clock } = request
    const home = await options.policy.destination(url, { zone })
    const credential = credentials.for(uuid)
    const refusedSchemes = credential ? refused.refusedSchemes(home, credential) : []
    const { address } = home
    const isTokenOnly = refusedSchemes.includes('digest')
    const sessionOptions = { credential, address, isTokenOnly, timeoutMs, signal, clock }
    const session = new SoapSession({ ...options, ...sessionOptions })
    return new Interview({ ...request, session, home, credential, refusedSchemes })
  }

  get facts(): CameraFacts {
    return { authentication: this.#authentication, ...this.#facts }
  }

  /** A device that speaks SOAP: it announced itself as an ONVIF device. */
  get isCamera(): boolean {
    return this.#options.session.hasAnswered
  }

  /**
   * Finds out whether there is a camera, and its time, which tokens depend on. By the
   * specification, a camera tells its time to each caller. Some cameras refuse that, and some tell
   * their local time and compare tokens with UTC.
   * @throws OnvifCredentialRefusedError, or the reason for the first call, if no call is answered
   * by SOAP
   */
  async identify(): Promise<void> {
    const { home, session, clock } = this.#options
    const before = clock.monotonicMs()
    const response = await this.#answerOf(
      GET_SYSTEM_DATE_AND_TIME,
      session.callOpenly(home, GET_SYSTEM_DATE_AND_TIME),
    )
    const time = AkriError.is(response) ? undefined : readTime(response)
    this.#times = this.#tokenTimes(time && time - (before + clock.monotonicMs()) / 2)
    this.#learn(readInformation, await this.#call(home, GET_DEVICE_INFORMATION))
    if (!this.isCamera) await this.#call(home, GET_SERVICES)
    if (!this.isCamera && this.#firstFailure !== undefined)
      throw this.#reasonFor(this.#firstFailure)
  }

  /** @param toldMs the time that the camera tells minus the monotonic time */
  #tokenTimes(toldMs: number | undefined): TokenTime[] {
    const { session, clock, refusedSchemes } = this.#options
    const all = [
      { scheme: 'told', offsetMs: toldMs },
      { scheme: 'date', offsetMs: session.dateOffsetMs },
      { scheme: 'machine', offsetMs: clock.wallMs() - clock.monotonicMs() },
    ] as const
    const different: TokenTime[] = []
    for (const { scheme, offsetMs } of all)
      if (
        offsetMs !== undefined &&
        different.every((other) => Math.abs(other.offsetMs - offsetMs) >= MIN_DIFFERENCE_MS)
      )
        different.push({ scheme, offsetMs })
    const untried = different.filter(({ scheme }) => !refusedSchemes.includes(scheme))
    return untried.length > 0 ? untried : different
  }

  #reasonFor(failure: AkriError): AkriError {
    const isRefused = this.#authentication === 'refused' && OnvifNotAuthorizedError.is(failure)
    return isRefused
      ? new OnvifCredentialRefusedError(`${failure.message}; the credential is refused`, {
          cause: failure,
        })
      : failure
  }

  /** @throws OnvifUnreachableError after the first call without an answer */
  async run(): Promise<void> {
    const { home, options } = this.#options
    this.#learn(
      (response) => readNetworkInterfaces(response, home.address),
      await this.#call(home, GET_NETWORK_INTERFACES),
    )
    this.#learn(
      (response) => ({ scopes: readScopes(response) }),
      await this.#call(home, GET_SCOPES),
    )
    if (options.mediaProfiles !== true) return
    const services = await this.#services()
    const unreachable: AkriError[] = []
    for (const service of MEDIA_SERVICES) {
      const url = services.get(service.namespace)
      if (url === undefined) continue
      const result = await this.#atMedia(url, (to) => this.#readProfiles(to, service))
      if (result === true) return
      if (result !== false) unreachable.push(result)
    }
    for (const error of unreachable) this.#noteUnreachable('media service', error)
  }

  /**
   * @returns the reason if the handler may not call the URL, or if nothing answers there
   * @throws OnvifUnreachableError if the device service is at the same place: the camera stopped
   * answering
   */
  async #atMedia(
    text: string,
    read: (to: Destination) => Promise<boolean>,
  ): Promise<boolean | AkriError> {
    const { options, zone, home } = this.#options
    const url = ofCamera(text, home)
    try {
      return await read(await options.policy.destination(url, { zone }))
    } catch (error) {
      if (OnvifAddressError.is(error)) return error
      if (OnvifUnreachableError.is(error) && !url.startsWith(`${home.url.origin}/`)) return error
      throw error
    }
  }

  #noteUnreachable(what: string, error: AkriError): void {
    const { log, home } = this.#options
    log.debug({ camera: home.url.host, err: error }, 'camera URL refused')
    const { unreachable = [] } = this.#facts
    const all = new Set([...unreachable, `${what}: ${error.message}`])
    this.#facts = { ...this.#facts, unreachable: [...all] }
  }

  #learn(
    read: (response: XmlElement) => Partial<CameraFacts>,
    response: XmlElement | undefined,
  ): void {
    if (response !== undefined) this.#facts = { ...this.#facts, ...read(response) }
  }

  async #services(): Promise<ReadonlyMap<string, string>> {
    const { home } = this.#options
    const services = await this.#call(home, GET_SERVICES)
    if (services !== undefined) return readServices(services)
    const capabilities = await this.#call(home, GET_CAPABILITIES)
    return capabilities === undefined ? new Map() : readCapabilities(capabilities)
  }

  /** @returns whether this service has profiles */
  async #readProfiles(to: Destination, service: MediaService): Promise<boolean> {
    const response = await this.#call(to, service.getProfiles)
    const profiles: MediaProfile[] = response === undefined ? [] : readProfiles(response)
    if (response !== undefined) this.#facts = { ...this.#facts, profiles }
    for (const [index, profile] of profiles.entries()) {
      const { token } = profile
      const streamUri = await this.#uri(to, service.getStreamUri(token), STREAM)
      const snapshotUri = await this.#uri(to, service.getSnapshotUri(token), SNAPSHOT)
      const { profiles: read = [] } = this.#facts
      const withUris = read.with(index, { ...profile, streamUri, snapshotUri })
      this.#facts = { ...this.#facts, profiles: withUris }
    }
    return profiles.length > 0
  }

  /**
   * A URI for brokers. It has no user name and no password, because every reader of Instances can
   * see it.
   */
  async #uri(
    to: Destination,
    call: SoapCall,
    { what, protocols }: UriKind,
  ): Promise<string | undefined> {
    const { options, zone, home, credential } = this.#options
    const response = await this.#call(to, call)
    const text = response && readUri(response)
    if (text === undefined || text.length > MAX_URI_CHARACTERS) return undefined
    const url = withoutUser(ofCamera(text, home))
    if (hasPassword(url, credential?.password ?? '')) return undefined
    try {
      await options.policy.destination(withoutPath(url), { zone, protocols })
      return url
    } catch (error) {
      if (!(OnvifAddressError.is(error) || OnvifUnreachableError.is(error))) throw error
      this.#noteUnreachable(what, error)
      return undefined
    }
  }

  /** @returns undefined if the camera does not tell @throws OnvifUnreachableError */
  async #call(to: Destination, call: SoapCall): Promise<XmlElement | undefined> {
    const { session, onFailure } = this.#options
    const isAccepted = this.#authentication === 'accepted' && session.hasCredentialFor(to)
    const first = isAccepted
      ? await this.#answerOf(call, session.call(to, call))
      : await this.#answerOf(call, session.callOpenly(to, call))
    if (!AkriError.is(first)) return first
    const asks = OnvifNotAuthorizedError.is(first)
    // Another device gets a digest of the password only if it asks for a credential.
    const mayTry = !isAccepted && (asks || this.isCamera)
    const second = mayTry ? await this.#tryCredential(to, call, asks) : undefined
    if (second !== undefined && !AkriError.is(second)) return second
    if (asks && this.#authentication === 'none') this.#authentication = 'required'
    // A credential that is missing, or that was refused before, is no news.
    const failure = second ?? first
    if (second !== undefined || !asks) onFailure?.(failure)
    return undefined
  }

  /**
   * @returns the answer; undefined if there is no credential for the destination, or if it may not
   * be tried now
   */
  async #tryCredential(
    to: Destination,
    call: SoapCall,
    asks: boolean,
  ): Promise<XmlElement | AkriError | undefined> {
    const { session, home, credential, refused, log } = this.#options
    if (this.#authentication === 'refused' || credential === undefined) return undefined
    if (!session.hasCredentialFor(to)) return undefined
    return refused.inTurn(home, credential, async () => {
      if (refused.has(home, credential)) {
        this.#authentication = 'refused'
        return undefined
      }
      if (refused.isPostponed(home, credential))
        throw new OnvifBusyError(`${call.operation}: the camera was just too busy for a credential`)
      if (refused.isUnclear(home, credential, asks)) return undefined
      const answer = await this.#answerByCredential(to, call, credential).catch((error) => {
        // A camera that answers so in any case says nothing about the credential.
        if (OnvifBusyError.is(error)) return asks ? this.#postponed(error, credential) : error
        throw error
      })
      if (!AkriError.is(answer)) {
        this.#authentication = 'accepted'
        refused.accept(home, credential)
      } else if (OnvifNotAuthorizedError.is(answer)) {
        this.#authentication = 'refused'
        log.debug({ camera: home.url.host, err: answer }, 'credential refused')
      } else refused.addUnclear(home, credential)
      return answer
    })
  }

  /** After a refused token, another token has another time. */
  async #answerByCredential(
    to: Destination,
    call: SoapCall,
    credential: Credential,
  ): Promise<XmlElement | AkriError> {
    const { session, home, refused } = this.#options
    for (let tokens = 1; ; tokens++) {
      const [time, ...others] = this.#times
      if (time !== undefined) session.clockOffsetMs = time.offsetMs
      const answer = await this.#answerOf(call, session.call(to, call))
      if (!OnvifNotAuthorizedError.is(answer)) return answer
      const isDigest = session.hasRefusedDigest
      const isLast = !isDigest && others.length === 0
      refused.add(home, credential, isDigest ? 'digest' : isLast ? undefined : time?.scheme)
      if (isDigest || isLast || tokens === MAX_TOKENS) return answer
      this.#times = others
    }
  }

  /** @throws OnvifBusyError unless the camera has been too busy for so long that it refuses */
  #postponed(error: OnvifBusyError, credential: Credential): OnvifNotAuthorizedError {
    const { home, refused } = this.#options
    refused.postpone(home, credential)
    if (!refused.has(home, credential)) throw error
    return new OnvifNotAuthorizedError(error.message, { cause: error })
  }

  /** @returns the error as a value if the camera answered by something else than a response */
  async #answerOf(call: SoapCall, response: Promise<XmlElement>): Promise<XmlElement | AkriError> {
    try {
      return await response
    } catch (error) {
      if (!AkriError.is(error) || !ANSWERS.some((type) => type.is(error))) throw error
      this.#firstFailure ??= error
      const { home, log } = this.#options
      const fields = { camera: home.url.host, operation: call.operation, err: error }
      log.debug(fields, 'camera call failed')
      return error
    }
  }
}

/** The errors of a call that was answered. */
const ANSWERS = [OnvifNotAuthorizedError, OnvifFaultError, OnvifReplyError, OnvifXmlError]

interface UriKind {
  readonly what: string
  readonly protocols: readonly string[]
}

const STREAM: UriKind = { what: 'stream', protocols: ['rtsp:', 'rtsps:'] }
const SNAPSHOT: UriKind = { what: 'snapshot', protocols: ['http:', 'https:'] }

/** All properties of a device together must fit into an Instance. */
const MAX_URI_CHARACTERS = 1024

/** A URL of a camera's own loopback interface, or of no address, means the camera. */
function ofCamera(text: string, home: Destination): string {
  if (!URL.canParse(text)) return text
  const url = new URL(text)
  // Of rtsp, a URL keeps the case.
  const host = url.hostname.toLowerCase()
  const isAnyLoopback = LOOPBACK.test(host) && !LOOPBACK.test(home.address)
  if (ITSELF.has(host) || isAnyLoopback) url.hostname = home.url.hostname
  return url.href
}

function withoutUser(text: string): string {
  if (!URL.canParse(text)) return text
  const url = new URL(text)
  url.username = ''
  url.password = ''
  return url.href
}

/** Errors may quote a URL, and a path may have a password of another user. */
function withoutPath(text: string): string {
  if (!URL.canParse(text)) return text
  const { protocol, host } = new URL(text)
  return `${protocol}//${host}/`
}

const ITSELF: ReadonlySet<string> = new Set(['127.0.0.1', '0.0.0.0', 'localhost', '[::1]', '[::]'])
const LOOPBACK = /^127\./
