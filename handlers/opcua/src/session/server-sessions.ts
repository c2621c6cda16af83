import {
  AkriError,
  type Clock,
  type DiscoveryProperties,
  type Logger,
  messageOf,
  withTimeLimit,
} from '@akrijs/sdk'
import { type DeviceCredentials, type FairQueue, inParallel } from '@akrijs/sdk/network'
import {
  type CertificateCredential,
  type Credential,
  type KeyPair,
  readKeyPair,
  serverCredentials,
} from '../credentials.js'
import { originOf, readEndpointUrl } from '../endpoint-url.js'
import { OpcuaSessionError, OpcuaUnreachableError } from '../errors.js'
import type { ApplicationIdentity, OpcuaServer } from '../opcua-server.js'
import { type CallOptions, callService, type Target } from '../ua-tcp/client.js'
import { type EndpointDescription, getEndpoints } from '../ua-tcp/discovery-services.js'
import { type ClientIdentity, clientIdentity } from './client-identity.js'
import { chooseEndpoints, UserTokenType } from './endpoint-choice.js'
import { loadNodeOpcua, type NodeOpcua } from './node-opcua.js'
import { readServer } from './read-server.js'
import { type SessionOutcome, sessionProperties } from './session-properties.js'
import { TrustedCertificates } from './trusted-certificates.js'

/** How long what a session told is good for, in milliseconds. */
const REFRESH_MS = 10 * 60_000
/** How many known servers are read again in one round, so that a round costs the same however many are known. */
const AGAIN_PER_ROUND = 4
/** How soon a server that could not be read is tried again, in milliseconds; twice as long each time. */
const RETRY = { initialMs: 30_000, ceilingMs: REFRESH_MS }
const AT_MOST = 4

/** Properties of a Configuration that are not of one server. All in PEM. */
const TRUSTED_CERTIFICATES = 'trusted_server_certificates'
const CLIENT_CERTIFICATE = 'client_certificate'
const CLIENT_KEY = 'client_private_key'

export interface ServerSessionsOptions {
  readonly properties: DiscoveryProperties
  /** `allowUnencryptedPasswords` of the details: whether a server that takes no other is sent passwords unencrypted. @default false */
  readonly allowUnencryptedPasswords?: boolean
  /** `trustAnyServer` of the details: whether any certificate will do for a credential. @default false */
  readonly trustAnyServer?: boolean
  /** The one of all Configurations. */
  readonly gate: FairQueue
  /** Where a server may be called. */
  readonly targetOf: (server: OpcuaServer) => Promise<Target | undefined>
  readonly clock: Clock
  readonly log: Logger
  readonly timeouts?: Pick<CallOptions, 'connectMs' | 'totalMs'> | undefined
  /** How long one session may take, from the call to its end, in milliseconds. @default 10000 */
  readonly sessionMs?: number
  /** How long a round waits for sessions, in milliseconds; who is slower is tried again later. @default 10000 */
  readonly roundMs?: number
}

export interface IdentifiedServer {
  readonly server: OpcuaServer
  readonly application: ApplicationIdentity
}

interface Entry {
  properties: Readonly<Record<string, string>>
  dueAt: number
  failures: number
  /** Of several endpoints the one that the server last let us in by. */
  policyUri?: string
}

/**
 * What servers tell in a session: asked for once, and now and then again. A server that fails keeps what it told before, or has
 * none of it. Loads node-opcua: make one only where `serverDetails` are wanted.
 */
export class ServerSessions {
  readonly #options: ServerSessionsOptions
  readonly #library: NodeOpcua
  readonly #identity: ClientIdentity
  readonly #credentials: DeviceCredentials<CertificateCredential>
  readonly #trusted: TrustedCertificates
  readonly #entries = new Map<string, Entry>()

  private constructor(
    options: ServerSessionsOptions,
    library: NodeOpcua,
    identity: ClientIdentity,
  ) {
    this.#options = options
    this.#library = library
    this.#identity = identity
    this.#credentials = serverCredentials(options.properties, options.log)
    this.#trusted = readTrusted(options.properties, options.log)
  }

  /** @throws OpcuaClientMissingError where node-opcua-client is not installed: a Configuration cannot have what it asks for */
  static async open(options: ServerSessionsOptions): Promise<ServerSessions> {
    const library = await loadNodeOpcua()
    const identity = await clientIdentity(library, readClientPair(options.properties, options.log))
    return new ServerSessions(options, library, identity)
  }

  /** Properties that the session with a server has added. */
  of({ discoveryUrl }: OpcuaServer): Readonly<Record<string, string>> {
    return this.#entries.get(discoveryUrl)?.properties ?? {}
  }

  /** Reads those of which nothing is known yet, and some of the others. Forgets who is not among them any more. */
  async update(servers: readonly IdentifiedServer[], signal: AbortSignal): Promise<void> {
    const urls = new Set(servers.map(({ server }) => server.discoveryUrl))
    for (const url of this.#entries.keys()) if (!urls.has(url)) this.#entries.delete(url)
    const now = this.#options.clock.monotonicMs()
    const dueAtOf = ({ server }: IdentifiedServer) =>
      this.#entries.get(server.discoveryUrl)?.dueAt ?? Number.NEGATIVE_INFINITY
    // One that is further ahead than anything is put off is of a clock that was put back since.
    const isDue = (dueAt: number) => dueAt <= now || dueAt > now + REFRESH_MS
    const due = servers
      .filter((server) => isDue(dueAtOf(server)))
      .sort((a, b) => dueAtOf(a) - dueAtOf(b))
    const again = due
      .filter(({ server }) => this.#entries.has(server.discoveryUrl))
      .slice(0, AGAIN_PER_ROUND)
    const fresh = due.filter(({ server }) => !this.#entries.has(server.discoveryUrl))
    if (fresh.length + again.length === 0) return
    await withTimeLimit(this.#options.roundMs ?? 10_000, signal, (round) =>
      inParallel([...fresh, ...again], AT_MOST, (server) => this.#read(server, round)),
    )
    signal.throwIfAborted()
  }

  async #read(known: IdentifiedServer, round: AbortSignal): Promise<void> {
    const { clock, gate, log, sessionMs = 10_000 } = this.#options
    const { discoveryUrl } = known.server
    const entry = this.#entries.get(discoveryUrl) ?? { properties: {}, dueAt: 0, failures: 0 }
    let signal: AbortSignal | undefined
    try {
      const read = (own: AbortSignal) => {
        signal = own
        return this.#readBy(known, entry, own)
      }
      entry.properties = await gate.run(
        discoveryUrl,
        () => withTimeLimit(sessionMs, round, read),
        round,
      )
      entry.dueAt = clock.monotonicMs() + REFRESH_MS
      entry.failures = 0
    } catch (error) {
      // Its turn did not come in this round: that is no failure of the server, and it is as new as before.
      if (signal === undefined && round.aborted) return
      if (!signal?.aborted && !AkriError.is(error)) throw error
      entry.dueAt =
        clock.monotonicMs() + Math.min(RETRY.ceilingMs, RETRY.initialMs * 2 ** entry.failures)
      entry.failures++
      const reason = signal?.aborted
        ? `no session came about within ${sessionMs} ms`
        : messageOf(error)
      if (entry.failures === 1)
        log.info({ discoveryUrl, reason }, 'a server told nothing in a session')
    }
    this.#entries.set(discoveryUrl, entry)
  }

  async #readBy(
    { server, application: { applicationUri } }: IdentifiedServer,
    entry: Entry,
    signal: AbortSignal,
  ): Promise<Record<string, string>> {
    const target = await this.#options.targetOf(server)
    const url = target && urlOf(target)
    if (target === undefined || url === undefined)
      throw new OpcuaUnreachableError(
        'it is in no network where servers are called, or has no address for a URL',
      )
    const credential = this.#credentials.for(applicationUri, server.discoveryUrl)
    const endpoints = await callService(getEndpoints, target, { ...this.#options.timeouts, signal })
    const choice = chooseEndpoints(endpoints, {
      userToken:
        credential === undefined ? UserTokenType.anonymous : UserTokenType[credential.kind],
      allowUnencryptedPasswords: this.#options.allowUnencryptedPasswords ?? false,
      isTrusted: (certificate) => this.#isTrusted(certificate, applicationUri),
    })
    if (choice.kind === 'none')
      return sessionProperties(outcomeOf(choice.missing, credential), undefined)
    // The server may not know our certificate: then it is asked at an endpoint that wants none, if one was chosen too.
    const remembered = choice.endpoints.filter(
      ({ securityPolicyUri }) => securityPolicyUri === entry.policyUri,
    )
    const candidates = oneOfEachPolicy([...remembered, ...choice.endpoints])
    for (const [index, endpoint] of candidates.entries()) {
      try {
        const { library, identity } = { library: this.#library, identity: this.#identity }
        const facts = await readServer({ library, identity, url, endpoint, credential, signal })
        entry.policyUri = endpoint.securityPolicyUri
        return sessionProperties(credential === undefined ? 'anonymous' : 'user', facts)
      } catch (error) {
        if (isRefusedUser(error))
          return sessionProperties(
            credential === undefined ? 'credential-wanted' : 'credential-refused',
            undefined,
          )
        if (index === candidates.length - 1 || !mayBeOfCertificate(error)) throw error
      }
    }
    throw new OpcuaSessionError('channel', 'there is no endpoint')
  }

  #isTrusted(certificate: Buffer, applicationUri: string): boolean {
    if (this.#options.trustAnyServer) return true
    return this.#trusted.trust(certificate, { applicationUri, now: this.#options.clock.wallMs() })
  }
}

function outcomeOf(
  missing: 'user-token' | 'security' | 'trust',
  credential: Credential | undefined,
): SessionOutcome {
  if (missing === 'trust') return 'certificate-not-trusted'
  if (missing === 'security') return 'security-too-weak'
  return credential === undefined ? 'credential-wanted' : 'credential-refused'
}

/** Where it is called by its address: what a name resolves to is decided once, and not again by the library. */
function urlOf({ addresses, port, endpointUrl }: Target): string | undefined {
  const host = addresses.find((address) => !address.includes('%'))
  return host && `${originOf({ host, port })}${readEndpointUrl(endpointUrl)?.path ?? ''}`
}

function oneOfEachPolicy(endpoints: readonly EndpointDescription[]): EndpointDescription[] {
  const seen = new Set<string>()
  return endpoints.filter(
    ({ securityPolicyUri }) => !seen.has(securityPolicyUri) && seen.add(securityPolicyUri),
  )
}

function isRefusedUser(error: unknown): boolean {
  return /\bBad(?:UserAccessDenied|IdentityTokenRejected|IdentityTokenInvalid|UserSignatureInvalid)\b/.test(
    messageOf(error),
  )
}

/** Not every server says why it ends the connection when it does not know our certificate. A user is not refused twice: see above. */
function mayBeOfCertificate(error: unknown): boolean {
  if (error instanceof OpcuaSessionError && error.stage === 'channel') return true
  return /\bBad(?:SecurityChecksFailed|Certificate\w+|SecurityPolicyRejected|ApplicationSignatureInvalid)\b/.test(
    messageOf(error),
  )
}

function readTrusted(properties: DiscoveryProperties, log: Logger): TrustedCertificates {
  const none = new TrustedCertificates('')
  if (!properties.has(TRUSTED_CERTIFICATES)) return none
  try {
    const trusted = new TrustedCertificates(properties.text(TRUSTED_CERTIFICATES) ?? '')
    if (trusted.size > 0) return trusted
  } catch {
    // The error would not say which property it is.
  }
  log.warn(
    { property: TRUSTED_CERTIFICATES },
    'there are no certificates in PEM in this property, so no server is trusted',
  )
  return none
}

function readClientPair(properties: DiscoveryProperties, log: Logger): KeyPair | undefined {
  const [certificate, key] = [CLIENT_CERTIFICATE, CLIENT_KEY]
  if (!properties.has(certificate) && !properties.has(key)) return undefined
  const pair = readKeyPair(properties.text(certificate), properties.text(key))
  if (pair === undefined)
    log.warn(
      { properties: [certificate, key] },
      'these are no RSA certificate and its key in PEM, so one is made instead',
    )
  return pair
}
