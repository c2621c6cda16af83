import { messageOf, systemClock } from '@akrijs/sdk'
import type { ClientSession, OPCUAClient, UserIdentityInfo } from 'node-opcua-client'
import type { Credential } from '../credentials.js'
import { OpcuaSessionError, type SessionStage } from '../errors.js'
import type { EndpointDescription } from '../ua-tcp/index.js'
import type { ClientIdentity } from './client-identity.js'
import { isSecured } from './endpoint-choice.js'
import { guardConnections } from './guarded-connections.js'
import type { NodeOpcua } from './node-opcua.js'

/** What a server reports in a session. Most fields are optional in OPC UA. */
export interface ServerInfo {
  /** OPC 10000-5, 12.6: `Running`, `Suspended`, `Shutdown`, … */
  readonly state?: string
  readonly startTime?: Date
  readonly productName?: string
  readonly manufacturer?: string
  readonly softwareVersion?: string
  readonly buildNumber?: string
  readonly buildDate?: Date
  /** URIs by namespace index. */
  readonly namespaces: readonly string[]
}

interface ReadOptions {
  readonly library: NodeOpcua
  readonly identity: ClientIdentity
  /** The URL to call: `opc.tcp://192.0.2.1:4840/path`. */
  readonly url: string
  readonly endpoint: EndpointDescription
  readonly credential: Credential | undefined
  /** Ends the session immediately. */
  readonly signal: AbortSignal
}

/** How long the orderly close of a session may take, in milliseconds. */
const CLOSE_MS = 1000
/** The limits of an answer. */
const MAX_MESSAGE_BYTES = 1024 * 1024
const MAX_CHUNKS = 64
const MAX_NAMESPACES = 1000

/** Node ids in namespace 0 (OPC 10000-6, annex A). */
const NODES = {
  state: 2259,
  startTime: 2257,
  productName: 2261,
  manufacturer: 2263,
  softwareVersion: 2264,
  buildNumber: 2265,
  buildDate: 2266,
  namespaces: 2255,
} as const

/**
 * Opens a session at an endpoint of a server, reads the server's information, and closes the
 * session and its socket before the promise settles.
 * @throws OpcuaSessionError; the reason of the signal when the signal is aborted
 */
export async function readServer({
  library,
  identity,
  url,
  endpoint,
  credential,
  signal,
}: ReadOptions): Promise<ServerInfo> {
  signal.throwIfAborted()
  let onFailure: (error: unknown) => void = () => undefined
  const failure = new Promise<never>((_, reject) => {
    onFailure = reject
  })
  using _guard = guardConnections(url, onFailure)
  const isSecure = isSecured(endpoint)
  const client = library.OPCUAClient.create({
    applicationName: 'akri',
    clientName: 'akri',
    certificateKeyPairProvider: identity,
    securityMode: endpoint.securityMode,
    securityPolicy: endpoint.securityPolicyUri,
    // Only the server with the trusted certificate can read the password.
    ...(isSecure ? { serverCertificate: endpoint.serverCertificate } : {}),
    endpointMustExist: false,
    connectionStrategy: { maxRetry: 0 },
    transportSettings: { maxMessageSize: MAX_MESSAGE_BYTES, maxChunkCount: MAX_CHUNKS },
    keepSessionAlive: false,
    // Otherwise disconnect() waits for the server, with the socket open.
    keepPendingSessionsOnDisconnect: true,
    requestedSessionTimeout: 30_000,
  })
  let stage: SessionStage = 'channel'
  let session: ClientSession | undefined
  const work = (async () => {
    await client.connect(url)
    stage = 'session'
    session = await client.createSession(userIdentity(library, credential))
    return readInfo(library, session)
  })()
  try {
    return await unlessAborted(Promise.race([work, failure]), signal)
  } catch (cause) {
    if (signal.aborted) throw signal.reason
    const hint =
      isSecure && stage === 'channel'
        ? 'the server may not trust the certificate of the handler: '
        : ''
    throw new OpcuaSessionError(stage, `${hint}${messageOf(cause).replace(/\s+/g, ' ')}`, { cause })
  } finally {
    await disconnect(client, session)
  }
}

function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason)
    signal.addEventListener('abort', onAbort, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort))
  })
}

function userIdentity(
  { UserTokenType, crypto_utils: crypto }: NodeOpcua,
  credential: Credential | undefined,
): UserIdentityInfo {
  switch (credential?.kind) {
    case undefined:
      return { type: UserTokenType.Anonymous }
    case 'password':
      return {
        type: UserTokenType.UserName,
        userName: credential.username,
        password: credential.password,
      }
    case 'certificate': {
      const keyOperations = crypto.keyOperationsFromPrivateKey(
        crypto.makePrivateKeyFromPem(credential.privateKey),
      )
      return {
        type: UserTokenType.Certificate,
        certificateData: credential.certificate.raw,
        keyOperations,
      }
    }
  }
}

async function readInfo(
  { AttributeIds, ServerState }: NodeOpcua,
  session: ClientSession,
): Promise<ServerInfo> {
  const names = Object.keys(NODES) as (keyof typeof NODES)[]
  const answers = await session.read(
    names.map((name) => ({ nodeId: `i=${NODES[name]}`, attributeId: AttributeIds.Value })),
  )
  const values = new Map(
    names.map((name, index) => [name, answers[index]?.value?.value as unknown]),
  )
  const state = values.get('state')
  const info = {
    state: typeof state === 'number' ? ServerState[state] : undefined,
    startTime: dateOf(values.get('startTime')),
    productName: textOf(values.get('productName')),
    manufacturer: textOf(values.get('manufacturer')),
    softwareVersion: textOf(values.get('softwareVersion')),
    buildNumber: textOf(values.get('buildNumber')),
    buildDate: dateOf(values.get('buildDate')),
  }
  const namespaces = values.get('namespaces')
  const defined = Object.entries(info).filter(([, value]) => value !== undefined)
  const uris = Array.isArray(namespaces) ? namespaces.slice(0, MAX_NAMESPACES) : []
  return { ...Object.fromEntries(defined), namespaces: uris.map((uri) => textOf(uri) ?? '') }
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}

/** A server reports an unknown date as the start of its calendar, 1601. */
function dateOf(value: unknown): Date | undefined {
  return value instanceof Date && value.getUTCFullYear() > 1601 ? value : undefined
}

/** Closes the session in an orderly way if the server cooperates, and the socket in any case. */
async function disconnect(client: OPCUAClient, session: ClientSession | undefined): Promise<void> {
  await withinCloseTime(session?.close())
  // This does not wait for the server. After an exception in its events, it may wait for ever.
  await withinCloseTime(client.disconnect())
}

async function withinCloseTime(work: Promise<void> | undefined): Promise<void> {
  const over = new AbortController()
  await Promise.race([
    work?.catch(() => undefined),
    systemClock.sleep(CLOSE_MS, over.signal).catch(() => undefined),
  ])
  over.abort()
}

/** Whether the server answered with a status code, and did not only close the connection. */
export function hasStatus(error: unknown): boolean {
  return /\bBad[A-Z]\w+/.test(messageOf(error))
}

/** Whether the server refused the user of the session. */
export function isUserRefused(error: unknown): boolean {
  return /\bBad(?:UserAccessDenied|IdentityToken(?:Rejected|Invalid)|UserSignatureInvalid)\b/.test(
    messageOf(error),
  )
}

const CERTIFICATE_REFUSED = new RegExp(
  '\\bBad(?:SecurityChecksFailed|SecurityPolicyRejected|' +
    'ApplicationSignatureInvalid|Certificate\\w+)\\b',
)

/**
 * Whether the server may have refused the certificate of the handler. Some servers close the
 * connection without a reason, before any user is sent.
 */
export function isCertificateRefused(error: unknown): boolean {
  if (error instanceof OpcuaSessionError && error.stage === 'channel') return true
  return CERTIFICATE_REFUSED.test(messageOf(error))
}
