import { type AkriError, type Clock, type Logger, systemClock } from '@akrijs/sdk'
import type { DeviceCredentials } from '@akrijs/sdk/network'
import type { Credential } from '../credentials.js'
import {
  OnvifAddressError,
  OnvifFaultError,
  OnvifNotAuthorizedError,
  OnvifReplyError,
  OnvifUnreachableError,
  OnvifXmlError,
} from '../errors.js'
import type { Destination, NetworkPolicy } from '../network-policy.js'
import type { XmlElement } from '../xml.js'
import { withDeadline } from './deadline.js'
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
import type { RefusedCredentials } from './refused-credentials.js'
import { type SoapCall, SoapSession } from './soap.js'

/** What holds for all cameras. */
export interface CameraOptions extends CertificatePolicy {
  /** Where they may be. Their media services, streams and snapshots may be nowhere else. */
  readonly policy: NetworkPolicy
  /** Whether to ask for profiles, and for the URIs of streams and snapshots. @default false */
  readonly mediaProfiles?: boolean
  /** For each request, in milliseconds. @default 3000 */
  readonly requestTimeoutMs?: number
  /** For all requests to one camera together, in milliseconds. @default 15000 */
  readonly timeoutMs?: number
}

export interface CameraRequest {
  /** Of the device service. */
  readonly url: string
  /** By which the credential is found. */
  readonly uuid: string
  /** The interface through which the camera is reached where its address is a link-local IPv6 one. */
  readonly zone?: string | undefined
  readonly credentials: DeviceCredentials
  /** Those that are not tried again yet; what is refused now is added. @default none */
  readonly refused?: RefusedCredentials
  readonly options: CameraOptions
  readonly signal: AbortSignal
  readonly log: Logger
  /** @default systemClock */
  readonly clock?: Pick<Clock, 'monotonicMs'>
}

export interface MediaProfile {
  readonly token: string
  readonly name: string
  /** RTSP. */
  readonly streamUri?: string
  /** Where a picture in JPEG can be fetched. */
  readonly snapshotUri?: string
}

/** What a camera tells about itself. What it does not tell, or not to us, is not there. */
export interface CameraFacts extends DeviceInformation {
  /**
   * `none`: it answered without a credential. `accepted`: it answered with ours. `required`: it wants one, and there is none.
   * `refused`: it does not want ours.
   */
  readonly authentication: 'none' | 'accepted' | 'required' | 'refused'
  readonly ipAddress?: string
  readonly macAddress?: string
  readonly scopes?: readonly string[]
  /** Only with `mediaProfiles`. */
  readonly profiles?: readonly MediaProfile[]
  /** Why there may be less than the camera could tell: it stopped answering in between. */
  readonly incomplete?: AkriError
}

/**
 * Asks the device service of a camera who it is. A wrong credential is tried once, since cameras lock users out, and not at all where
 * it is known to be wrong; what else they tell is then asked without one.
 * @throws OnvifAddressError; what {@link SoapSession.callOpenly} throws where there is no camera; the signal's reason
 */
export function readCamera(request: CameraRequest): Promise<CameraFacts> {
  const { url, uuid, zone, credentials, refused, options, signal, log, clock } = request
  const { policy, requestTimeoutMs = 3000, timeoutMs = 15_000, mediaProfiles = false } = options
  const late = () =>
    new OnvifUnreachableError(`${url}: its answers took longer than ${timeoutMs} ms`)
  let asked: Interview | undefined
  return withDeadline(signal, timeoutMs, late, async (within) => {
    const home = await policy.destination(url, { zone })
    const credential = credentials.for(uuid)
    const session = new SoapSession({
      ...options,
      credential,
      address: home.address,
      timeoutMs: requestTimeoutMs,
      signal: within,
      clock,
    })
    const before = (clock ?? systemClock).monotonicMs()
    // Every ONVIF device answers this to everybody; what does not is none.
    const time = readTime(await session.callOpenly(home, GET_SYSTEM_DATE_AND_TIME))
    const now = (clock ?? systemClock).monotonicMs()
    if (time !== undefined) session.clockOffsetMs = time - (before + now) / 2
    asked = new Interview({ session, home, credential, refused, policy, zone, log })
    await asked.run(mediaProfiles)
    return asked.facts()
  }).catch((error: unknown) => {
    signal.throwIfAborted()
    if (asked === undefined || !(error instanceof OnvifUnreachableError)) throw error
    return { ...asked.facts(), incomplete: error }
  })
}

interface InterviewOptions {
  readonly session: SoapSession
  readonly home: Destination
  readonly credential: Credential | undefined
  readonly refused: RefusedCredentials | undefined
  readonly policy: NetworkPolicy
  readonly zone: string | undefined
  readonly log: Logger
}

/** One question after the other: cameras are small. */
class Interview {
  readonly #options: InterviewOptions
  #authentication: CameraFacts['authentication']
  #facts: Omit<CameraFacts, 'authentication'> = {}

  constructor(options: InterviewOptions) {
    this.#options = options
    const { refused, home, credential } = options
    this.#authentication =
      credential !== undefined && refused?.has(home, credential) ? 'refused' : 'none'
  }

  facts(): CameraFacts {
    return { authentication: this.#authentication, ...this.#facts }
  }

  /** @throws OnvifUnreachableError: whoever does not answer once is not asked on */
  async run(mediaProfiles: boolean): Promise<void> {
    const { home } = this.#options
    this.#learn(readInformation, await this.#ask(home, GET_DEVICE_INFORMATION))
    this.#learn(readNetworkInterfaces, await this.#ask(home, GET_NETWORK_INTERFACES))
    this.#learn((response) => ({ scopes: readScopes(response) }), await this.#ask(home, GET_SCOPES))
    if (!mediaProfiles) return
    const services = await this.#services()
    for (const service of MEDIA_SERVICES) {
      const url = services.get(service.namespace)
      const to = url === undefined ? undefined : await this.#destination(url)
      if (to !== undefined && (await this.#askProfiles(to, service))) return
    }
  }

  #learn(
    read: (response: XmlElement) => Partial<CameraFacts>,
    response: XmlElement | undefined,
  ): void {
    if (response !== undefined) this.#facts = { ...this.#facts, ...read(response) }
  }

  async #services(): Promise<ReadonlyMap<string, string>> {
    const { home } = this.#options
    const services = await this.#ask(home, GET_SERVICES)
    if (services !== undefined) return readServices(services)
    const capabilities = await this.#ask(home, GET_CAPABILITIES)
    return capabilities === undefined ? new Map() : readCapabilities(capabilities)
  }

  /** @returns whether this service has profiles */
  async #askProfiles(to: Destination, service: MediaService): Promise<boolean> {
    const response = await this.#ask(to, service.getProfiles)
    const profiles = response === undefined ? [] : readProfiles(response)
    if (response !== undefined) this.#facts = { ...this.#facts, profiles }
    for (const [index, profile] of profiles.entries()) {
      const streamUri = await this.#askUri(to, service.getStreamUri(profile.token), [
        'rtsp:',
        'rtsps:',
      ])
      const snapshotUri = await this.#askUri(to, service.getSnapshotUri(profile.token), [
        'http:',
        'https:',
      ])
      const known = {
        ...profile,
        ...(streamUri !== undefined && { streamUri }),
        ...(snapshotUri !== undefined && { snapshotUri }),
      }
      this.#facts = { ...this.#facts, profiles: (this.#facts.profiles ?? []).with(index, known) }
    }
    return profiles.length > 0
  }

  /** A URI for those who use the camera: as one that we would use, and without a user name, since anybody may see it. */
  async #askUri(
    to: Destination,
    call: SoapCall,
    protocols: readonly string[],
  ): Promise<string | undefined> {
    const response = await this.#ask(to, call)
    const text = response && readUri(response)
    if (text === undefined || text.length > MAX_URI_CHARACTERS || !URL.canParse(text))
      return undefined
    const url = new URL(text)
    url.username = ''
    url.password = ''
    return this.#names(url.href) || (await this.#destination(url.href, protocols)) === undefined
      ? undefined
      : url.href
  }

  /** Some cameras write the password of who asks into the query. */
  #names(uri: string): boolean {
    const password = this.#options.credential?.password ?? ''
    return (
      password.length >= 4 && (uri.includes(password) || uri.includes(encodeURIComponent(password)))
    )
  }

  /** Where something is that the camera names; undefined where that is none of our business. */
  async #destination(url: string, protocols?: readonly string[]): Promise<Destination | undefined> {
    const { policy, zone, log, home } = this.#options
    try {
      return await policy.destination(url, { zone, ...(protocols && { protocols }) })
    } catch (error) {
      if (!(error instanceof OnvifAddressError || error instanceof OnvifUnreachableError))
        throw error
      log.debug(
        { camera: home.url.host, reason: error.message },
        'the camera names an address that is not used',
      )
      return undefined
    }
  }

  /** What the camera answers, if it does. @throws OnvifUnreachableError */
  async #ask(to: Destination, call: SoapCall): Promise<XmlElement | undefined> {
    const { session, home, log } = this.#options
    if (this.#authentication !== 'refused' && session.hasCredentialFor(to)) {
      const answer = await this.#askWithCredential(to, call)
      if (!(answer instanceof OnvifNotAuthorizedError)) {
        if (answer !== undefined) this.#authentication = 'accepted'
        return answer
      }
      // Where it is accepted otherwise, the user just may not do this.
      if (this.#authentication === 'accepted') return undefined
      this.#authentication = 'refused'
      log.debug(
        { camera: home.url.host, reason: answer.message },
        'the camera refuses the credential',
      )
    }
    const answer = await this.#tolerate(call, session.callOpenly(to, call))
    if (!(answer instanceof OnvifNotAuthorizedError)) return answer
    if (this.#authentication === 'none') this.#authentication = 'required'
    return undefined
  }

  async #askWithCredential(
    to: Destination,
    call: SoapCall,
  ): Promise<XmlElement | OnvifNotAuthorizedError | undefined> {
    const { session, home, credential, refused } = this.#options
    const attempt = () => this.#tolerate(call, session.call(to, call))
    if (this.#authentication === 'accepted' || refused === undefined || credential === undefined)
      return attempt()
    return refused.oneByOne(home, credential, async () => {
      if (refused.has(home, credential))
        return new OnvifNotAuthorizedError(`${call.operation}: it was refused just before`)
      const answer = await attempt()
      if (answer instanceof OnvifNotAuthorizedError) refused.add(home, credential)
      return answer
    })
  }

  async #tolerate(
    call: SoapCall,
    asked: Promise<XmlElement>,
  ): Promise<XmlElement | OnvifNotAuthorizedError | undefined> {
    try {
      return await asked
    } catch (error) {
      if (error instanceof OnvifNotAuthorizedError) return error
      if (
        !(
          error instanceof OnvifFaultError ||
          error instanceof OnvifReplyError ||
          error instanceof OnvifXmlError
        )
      )
        throw error
      const { home, log } = this.#options
      log.debug(
        { camera: home.url.host, operation: call.operation, reason: error.message },
        'the camera does not tell this',
      )
      return undefined
    }
  }
}

/** Longer ones are no use to anybody, and all properties together must fit into an Instance. */
const MAX_URI_CHARACTERS = 1024
