import {
  AkriError,
  type Clock,
  type DiscoveryProperties,
  type Logger,
  withTimeLimit,
} from '@akrijs/sdk'
import { type DeviceCredentials, inParallel, RefreshSchedule } from '@akrijs/sdk/network'
import { type CertificateCredential, type Credential, serverCredentials } from '../credentials.js'
import { urlByAddress } from '../endpoint-url.js'
import { OpcuaSessionError, OpcuaUnreachableError } from '../errors.js'
import type { IdentifiedServer, OpcuaServer } from '../opcua-server.js'
import {
  type CallTimeouts,
  callService,
  type EndpointDescription,
  getEndpoints,
  type Target,
} from '../ua-tcp/index.js'
import { type ClientIdentity, clientIdentity } from './client-identity.js'
import { chooseEndpoints, UserTokenType } from './endpoint-choice.js'
import { loadNodeOpcua, type NodeOpcua } from './node-opcua.js'
import {
  hasStatus,
  isCertificateRefused,
  isUserRefused,
  readServer,
  type ServerInfo,
} from './read-server.js'
import type { SessionPlaces } from './session-places.js'
import { type SessionOutcome, sessionProperties } from './session-properties.js'
import { type TrustedCertificates, trustedCertificates } from './trusted-certificates.js'

/**
 * Sessions are rarer than calls: each takes one of the few places that a server has, and a log-in.
 * Times are in milliseconds.
 */
const REFRESH_MS = 10 * 60_000
const RETRY_MS = 30_000
const REFRESHES_PER_ROUND = 4
const MAX_PARALLEL_SESSIONS = 4

export interface ServerSessionsOptions {
  readonly properties: DiscoveryProperties
  /** `allowUnencryptedPasswords` of the details. @default false */
  readonly allowUnencryptedPasswords?: boolean
  /** `trustAnyServer` of the details. @default false */
  readonly trustAnyServer?: boolean
  readonly places: SessionPlaces
  /** Where the handler may call a server; undefined if it may not. */
  readonly targetOf: (server: OpcuaServer) => Promise<Target | undefined>
  readonly clock: Clock
  readonly log: Logger
  readonly timeouts?: CallTimeouts | undefined
}

export interface SessionLimits {
  /** How long one session may take in total, in milliseconds. @default 10000 */
  readonly sessionMs?: number
  /** How long a round waits for sessions, in milliseconds. @default 10000 */
  readonly roundMs?: number
}

interface SessionResult {
  readonly outcome: SessionOutcome
  readonly properties: Readonly<Record<string, string>>
  /** The security policy of the endpoint that accepted the last session. */
  readonly policyUri?: string | undefined
  /** Why the credential for all servers was not used. */
  readonly unused?: SessionOutcome | undefined
}

interface SessionCall {
  readonly url: string
  readonly endpoints: readonly EndpointDescription[]
  readonly applicationUri: string
  readonly policyUri: string | undefined
  readonly signal: AbortSignal
}

interface SessionAttempt {
  readonly outcome: SessionOutcome
  readonly info?: ServerInfo
  readonly policyUri?: string | undefined
  readonly error?: unknown
}

/**
 * Properties that servers report in a session, read again from time to time. A server that fails
 * keeps its last properties. This class loads node-opcua: create it only for `serverDetails`.
 */
export class ServerSessions {
  readonly #options: ServerSessionsOptions
  readonly #limits: Required<SessionLimits>
  readonly #library: NodeOpcua
  readonly #identity: ClientIdentity
  readonly #credentials: DeviceCredentials<CertificateCredential>
  readonly #trusted: TrustedCertificates
  readonly #schedule: RefreshSchedule<SessionResult>

  private constructor(
    options: ServerSessionsOptions,
    limits: SessionLimits,
    library: NodeOpcua,
    identity: ClientIdentity,
  ) {
    const { clock, log, properties } = options
    this.#options = options
    this.#limits = { sessionMs: 10_000, roundMs: 10_000, ...limits }
    this.#library = library
    this.#identity = identity
    this.#credentials = serverCredentials(properties, log)
    this.#trusted = trustedCertificates(properties, log)
    this.#schedule = new RefreshSchedule({
      clock,
      refreshMs: REFRESH_MS,
      retryMs: RETRY_MS,
      maxRefreshes: REFRESHES_PER_ROUND,
    })
  }

  /** @throws OpcuaClientMissingError if node-opcua-client is not installed */
  static async open(
    options: ServerSessionsOptions,
    limits: SessionLimits = {},
  ): Promise<ServerSessions> {
    const library = await loadNodeOpcua()
    const identity = await clientIdentity(library, options.properties, options.log)
    return new ServerSessions(options, limits, library, identity)
  }

  /** The properties from the last session with a server. */
  of({ discoveryUrl }: OpcuaServer): Readonly<Record<string, string>> {
    return this.#schedule.get(discoveryUrl)?.value?.properties ?? {}
  }

  /** Opens sessions with the new servers and some of the known ones. Forgets all other servers. */
  async update(servers: readonly IdentifiedServer[], signal: AbortSignal): Promise<void> {
    const due = this.#schedule.takeDue(servers, ({ server }) => server.discoveryUrl)
    if (due.length === 0) return
    await withTimeLimit(this.#limits.roundMs, signal, (round) =>
      inParallel(due, MAX_PARALLEL_SESSIONS, (server) => this.#tryRead(server, round)),
    )
    signal.throwIfAborted()
  }

  async #tryRead(identified: IdentifiedServer, round: AbortSignal): Promise<void> {
    const { log, places } = this.#options
    const { discoveryUrl } = identified.server
    let signal: AbortSignal | undefined
    const read = (limited: AbortSignal) => {
      signal = limited
      return this.#read(identified, limited)
    }
    try {
      const result = await places.run(
        discoveryUrl,
        () => withTimeLimit(this.#limits.sessionMs, round, read),
        round,
      )
      this.#schedule.succeed(discoveryUrl, result)
    } catch (error) {
      // The round ended before the turn of this server: the server did not fail, and stays new.
      if (signal === undefined && round.aborted) return
      if (error !== signal?.reason && !AkriError.is(error)) throw error
      if (this.#schedule.fail(discoveryUrl) === 1)
        log.info({ discoveryUrl, err: error }, 'server session failed')
    }
  }

  async #read(
    { server, application: { applicationUri } }: IdentifiedServer,
    signal: AbortSignal,
  ): Promise<SessionResult> {
    const { targetOf, timeouts, log } = this.#options
    const { discoveryUrl } = server
    const target = await targetOf(server)
    const url = target && urlByAddress(target)
    if (target === undefined || url === undefined)
      throw new OpcuaUnreachableError(
        'the server is outside the callable networks, or has no address for a URL',
      )
    const endpoints = await callService(getEndpoints, target, { ...timeouts, signal })
    const before = this.#schedule.get(discoveryUrl)?.value
    const call = { url, endpoints, applicationUri, policyUri: before?.policyUri, signal }
    const ownCredential = this.#credentials.own(applicationUri, discoveryUrl)
    const credential = ownCredential ?? this.#credentials.for()
    if (ownCredential !== undefined || credential === undefined)
      return resultOf(await this.#open(call, credential))
    const withUser = await this.#open(call, credential).catch((error: unknown) => {
      // A connection that broke once is no reason to do without the user who was accepted before.
      if (before?.outcome === 'user' && !hasStatus(error)) throw error
      return refusedSession(error)
    })
    if (withUser.outcome === 'user') return resultOf(withUser)
    // The credential for all servers is not meant for each of them.
    const withoutUser = await this.#open(call, undefined).catch(refusedConnection)
    const { outcome: unused, error } = withUser
    if (withoutUser.outcome === 'anonymous') {
      if (unused !== before?.unused)
        log.info({ discoveryUrl, credential: unused, err: error }, 'default credential not used')
      return resultOf(withoutUser, unused)
    }
    if (error !== undefined) throw error
    return resultOf(withUser)
  }

  /** @throws OpcuaSessionError */
  async #open(
    { url, endpoints, applicationUri, policyUri, signal }: SessionCall,
    credential: Credential | undefined,
  ): Promise<SessionAttempt> {
    const { allowUnencryptedPasswords = false } = this.#options
    const choice = chooseEndpoints(endpoints, {
      userToken:
        credential === undefined ? UserTokenType.anonymous : UserTokenType[credential.kind],
      allowUnencryptedPasswords,
      isTrusted: (certificate) => this.#isTrusted(certificate, applicationUri),
    })
    if (choice.kind === 'none')
      return { outcome: outcomeWithout(choice.missing, credential), policyUri }
    // A server that refuses the certificate of the handler may accept it at another endpoint.
    const candidates = distinctPolicies([
      ...choice.endpoints.filter((endpoint) => endpoint.securityPolicyUri === policyUri),
      ...choice.endpoints,
    ])
    const [library, identity] = [this.#library, this.#identity]
    for (const [index, endpoint] of candidates.entries()) {
      try {
        const info = await readServer({ library, identity, url, endpoint, credential, signal })
        const outcome = credential === undefined ? 'anonymous' : 'user'
        return { outcome, info, policyUri: endpoint.securityPolicyUri }
      } catch (error) {
        if (isUserRefused(error)) {
          const outcome = credential === undefined ? 'credential-wanted' : 'credential-refused'
          return { outcome, policyUri }
        }
        if (index === candidates.length - 1 || !isCertificateRefused(error)) throw error
      }
    }
    throw new OpcuaSessionError('channel', 'the server has no usable endpoint')
  }

  #isTrusted(certificate: Buffer, applicationUri: string): boolean {
    if (this.#options.trustAnyServer) return true
    return this.#trusted.trust(certificate, { applicationUri, now: this.#options.clock.wallMs() })
  }
}

/** @throws the error if no server refused anything: the time ended */
function refusedSession(error: unknown): SessionAttempt {
  if (!(error instanceof OpcuaSessionError)) throw error
  return isCertificateRefused(error)
    ? refusedConnection(error)
    : { outcome: 'session-refused', error }
}

/** @throws each error that has another reason */
function refusedConnection(error: unknown): SessionAttempt {
  if (!isCertificateRefused(error)) throw error
  return { outcome: 'connection-refused', error }
}

function resultOf(
  { outcome, info, policyUri }: SessionAttempt,
  unused?: SessionOutcome,
): SessionResult {
  return { outcome, properties: sessionProperties(outcome, info, unused), policyUri, unused }
}

function outcomeWithout(
  missing: 'user-token' | 'security' | 'trust',
  credential: Credential | undefined,
): SessionOutcome {
  if (missing === 'trust') return 'certificate-not-trusted'
  if (missing === 'security') return 'security-too-weak'
  return credential === undefined ? 'credential-wanted' : 'credential-not-taken'
}

function distinctPolicies(endpoints: readonly EndpointDescription[]): EndpointDescription[] {
  const seen = new Set<string>()
  return endpoints.filter(
    ({ securityPolicyUri }) => !seen.has(securityPolicyUri) && seen.add(securityPolicyUri),
  )
}
