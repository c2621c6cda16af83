import { messageOf } from '@akrijs/sdk'
import type { ClientSession, OPCUAClient, UserIdentityInfo } from 'node-opcua-client'
import type { Credential } from '../credentials.js'
import { OpcuaSessionError, type SessionStage } from '../errors.js'
import type { EndpointDescription } from '../ua-tcp/discovery-services.js'
import type { ClientIdentity } from './client-identity.js'
import { isSecured } from './endpoint-choice.js'
import type { NodeOpcua } from './node-opcua.js'

/** What a session tells of a server. A server need not know all of it. */
export interface ServerInfo {
  /** Of OPC 10000-5, 12.6: `Running`, `Suspended`, `Shutdown`, … */
  readonly state?: string
  readonly startTime?: Date
  readonly productName?: string
  readonly manufacturer?: string
  readonly softwareVersion?: string
  readonly buildNumber?: string
  readonly buildDate?: Date
  /** By their index. */
  readonly namespaces: readonly string[]
}

export interface ReadOptions {
  readonly library: NodeOpcua
  readonly identity: ClientIdentity
  /** Where the server is called, `opc.tcp://192.0.2.1:4840/path`. */
  readonly url: string
  readonly endpoint: EndpointDescription
  readonly credential: Credential | undefined
  /** Ends the session at once. */
  readonly signal: AbortSignal
}

/** How long a session may take to be closed in an orderly way, in milliseconds. */
const CLOSE_MS = 1000
/** What a server may answer with, in bytes, and of how many chunks. */
const MAX_MESSAGE = 1024 * 1024
const MAX_CHUNKS = 64
const MAX_NAMESPACES = 1000

/** Ids of namespace 0 (OPC 10000-6, annex A). */
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
 * Opens a session at one endpoint of a server, reads what it says of itself, and closes the session. Nothing of it is left when
 * the promise settles.
 * @throws OpcuaSessionError; the signal's reason when it is aborted
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
  const isSecure = isSecured(endpoint)
  const client = library.OPCUAClient.create({
    applicationName: 'akri',
    clientName: 'akri',
    certificateKeyPairProvider: identity,
    securityMode: endpoint.securityMode,
    securityPolicy: endpoint.securityPolicyUri,
    // The one that was judged, so that nobody else can be at the other end, or read the password.
    ...(isSecure ? { serverCertificate: endpoint.serverCertificate } : {}),
    endpointMustExist: false,
    connectionStrategy: { maxRetry: 0 },
    transportSettings: { maxMessageSize: MAX_MESSAGE, maxChunkCount: MAX_CHUNKS },
    keepSessionAlive: false,
    // It would wait for the server to close them, with the socket open: see disconnect.
    keepPendingSessionsOnDisconnect: true,
    requestedSessionTimeout: 30_000,
  })
  let stage: SessionStage = 'channel'
  let session: ClientSession | undefined
  const work = (async () => {
    await client.connect(url)
    stage = 'session'
    session = await client.createSession(userIdentity(library, credential))
    return readFacts(library, session)
  })()
  try {
    return await unlessAborted(work, signal)
  } catch (cause) {
    if (signal.aborted) throw signal.reason
    const hint =
      isSecure && stage === 'channel'
        ? 'perhaps it does not trust the certificate of its client: '
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

async function readFacts(
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
  const facts = {
    state: typeof state === 'number' ? ServerState[state] : undefined,
    startTime: dateOf(values.get('startTime')),
    productName: textOf(values.get('productName')),
    manufacturer: textOf(values.get('manufacturer')),
    softwareVersion: textOf(values.get('softwareVersion')),
    buildNumber: textOf(values.get('buildNumber')),
    buildDate: dateOf(values.get('buildDate')),
  }
  const namespaces = values.get('namespaces')
  const known = Object.fromEntries(Object.entries(facts).filter(([, value]) => value !== undefined))
  const uris = Array.isArray(namespaces) ? namespaces.slice(0, MAX_NAMESPACES) : []
  return { ...known, namespaces: uris.map((uri) => textOf(uri) ?? '') }
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}

/** A server that does not know says the beginning of its calendar, 1601. */
function dateOf(value: unknown): Date | undefined {
  return value instanceof Date && value.getUTCFullYear() > 1601 ? value : undefined
}

/** A server that does not close the session in time has to forget it by itself. The socket is closed in any case. */
async function disconnect(client: OPCUAClient, session: ClientSession | undefined): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const patience = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, CLOSE_MS)
  })
  await Promise.race([session?.close().catch(() => undefined), patience])
  clearTimeout(timer)
  // Waits for nothing that the server does.
  await client.disconnect().catch(() => undefined)
}
