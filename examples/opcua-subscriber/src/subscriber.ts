import { once } from 'node:events'
import os from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  AttributeIds,
  type ClientSession,
  ClientSubscription,
  crypto_utils,
  type DataValue,
  OPCUAClient,
  setErrorLogger,
  setWarningLogger,
  TimestampsToReturn,
} from 'node-opcua-client'

interface SubscriberOptions {
  /** `opc.tcp://host:port/path` */
  readonly url: string
  /** Such as `ns=2;s=Temperature`. */
  readonly nodeId: string
  /** The sampling interval of the server, in milliseconds. */
  readonly intervalMs: number
  /** A connection without any message of the subscription for this long is lost. */
  readonly silenceMs: number
  readonly onValue: (value: DataValue) => void
  /** Called after each failed or lost connection, before the pause that precedes the next one. */
  readonly onLost: (reason: string) => void
  readonly signal: AbortSignal
}

/** The pause after the first failure, in milliseconds; each further pause is twice as long. */
const FIRST_PAUSE_MS = 500
const LONGEST_PAUSE_MS = 10_000
/** For the answer to one request, and for a TCP connection. */
const ANSWER_MS = 10_000
/** For all requests before the first message of the subscription. */
const OPEN_MS = 30_000
/** The longest silence that a server can ask for. */
const LONGEST_SILENCE_MS = 10 * 60_000
/** How long the server may take to close a session; afterwards the session ends by its timeout. */
const CLOSE_MS = 2000

/**
 * Follows a node of a server until the signal is aborted, in a session without security and user.
 * After each failure a new client makes a new session and a new subscription: servers of other
 * stacks answer the requests that would repair a subscription in ways that never end.
 * @throws Error if the server has no such node, or requires security or a user, at the first
 * session. Later these also pass: a server may start before its nodes are there.
 */
export async function subscribe(options: SubscriberOptions): Promise<void> {
  const { onLost, signal } = options
  // The library prints to the terminal. Everything important also comes as an error.
  setWarningLogger(() => undefined)
  setErrorLogger(() => undefined)
  const certificateKeyPairProvider = await identity()
  let hasFollowed = false
  let failures = 0
  while (!signal.aborted) {
    const connection = new Connection(options, certificateKeyPairProvider)
    const began = performance.now()
    try {
      await connection.follow()
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      hasFollowed ||= connection.hasFollowed
      if (signal.aborted) return
      if (!hasFollowed && LASTING.test(reason)) throw error
      onLost(reason)
    }
    // A server that accepts and fails at once does not get more attempts than a missing server.
    failures = performance.now() - began > LONGEST_PAUSE_MS ? 0 : failures + 1
    const pause = Math.min(FIRST_PAUSE_MS * 2 ** Math.max(0, failures - 1), LONGEST_PAUSE_MS)
    await sleep(pause, undefined, { signal }).catch(() => undefined)
  }
}

/** Failures that only a change of the configuration or of the server can end. */
const LASTING = new RegExp(
  [
    'BadNodeId(Unknown|Invalid)',
    'Bad(AttributeIdInvalid|NotReadable|UserAccessDenied|CertificateUntrusted)',
    'BadIdentityToken(Invalid|Rejected)',
    'BadSecurity(Mode|Policy)(Rejected|Insufficient)',
    'Cannot find (an Endpoint matching|ANONYMOUS)',
  ].join('|'),
)

/** One client with one session and one subscription. */
class Connection {
  readonly #options: SubscriberOptions
  readonly #client: OPCUAClient
  /** Aborted with the reason when the connection is lost, or the program ends. */
  readonly #over = new AbortController()
  #session: ClientSession | undefined
  /** The server has accepted the subscription to the node. */
  hasFollowed = false

  constructor(
    options: SubscriberOptions,
    certificateKeyPairProvider: Awaited<ReturnType<typeof identity>>,
  ) {
    this.#options = options
    this.#client = OPCUAClient.create({
      applicationName: 'opcua-subscriber',
      clientName: 'opcua-subscriber',
      // Kept in memory: by default, node-opcua writes a file below the home directory, which may be
      // read-only in a container.
      certificateKeyPairProvider,
      // The server may report another host name.
      endpointMustExist: false,
      keepSessionAlive: true,
      // The library closes a connection without traffic for ANSWER_MS. Keep-alives of the
      // subscription can come less often.
      keepAliveInterval: ANSWER_MS / 2,
      requestedSessionTimeout: Math.max(60_000, 3 * options.silenceMs),
      transportTimeout: ANSWER_MS,
      defaultTransactionTimeout: ANSWER_MS,
      // No attempts of its own: they can go on for ever without a value.
      connectionStrategy: { maxRetry: 0 },
      // A session that cannot be closed must not delay the next client.
      keepPendingSessionsOnDisconnect: true,
    })
  }

  /** Never resolves before the signal is aborted. Leaves no socket and no timer. */
  async follow(): Promise<void> {
    const { signal } = this.#options
    const over = this.#over
    const onAbort = () => over.abort(signal.reason)
    signal.addEventListener('abort', onAbort, { once: true })
    const lose = (reason: string) => over.abort(new Error(reason))
    const silence = new SilenceWatch((ms) => lose(`the server was silent for ${ms / 1000} s`))
    silence.begin(OPEN_MS)
    this.#client.on('close', (error) => lose(error?.message ?? 'the connection was closed'))
    try {
      if (signal.aborted) return
      await Promise.race([this.#open(silence, lose), abortOf(over.signal)])
      await abortOf(over.signal)
    } finally {
      silence.end()
      signal.removeEventListener('abort', onAbort)
      over.abort(new Error('the connection was ended'))
      await this.#close()
    }
  }

  async #open(silence: SilenceWatch, lose: (reason: string) => void): Promise<void> {
    const { url, nodeId, intervalMs, silenceMs, onValue } = this.#options
    const client = this.#client
    await client.connect(url)
    const session = await client.createSession()
    this.#session = session
    session.on('session_closed', (status) => lose(`the session was closed: ${status.name}`))
    // Otherwise the library throws, into the void, if the keep-alive time that the server chose is
    // longer than the session timeout. The client keeps the session alive by itself.
    ClientSubscription.ignoreNextWarning = true
    const subscription = await session.createSubscription2({
      requestedPublishingInterval: intervalMs,
      ...requestedCounts(silenceMs, intervalMs),
      publishingEnabled: true,
    })
    // The server multiplies the counts by its own interval, which may be much longer. A server
    // without ModifySubscription keeps them.
    if (subscription.publishingInterval > intervalMs)
      await subscription
        .modify(requestedCounts(silenceMs, subscription.publishingInterval))
        .catch(() => undefined)
    silence.begin(silenceLimit(silenceMs, subscription))
    subscription.on('raw_notification', () => silence.renew())
    subscription.on('status_changed', (status) =>
      lose(`the server ended the subscription: ${status.name}`),
    )
    subscription.on('terminated', () => lose('the subscription ended'))
    const item = await subscription.monitor(
      { nodeId, attributeId: AttributeIds.Value },
      { samplingInterval: intervalMs, queueSize: 10, discardOldest: true },
      TimestampsToReturn.Both,
    )
    if (!item.statusCode.isGood())
      throw new Error(`${nodeId} cannot be followed: ${item.statusCode.toString()}`)
    this.hasFollowed = true
    item.on('changed', (value) => {
      if (!this.#over.signal.aborted) onValue(value)
    })
  }

  async #close(): Promise<void> {
    const limit = new AbortController()
    const close = this.#session?.close(true).catch(() => undefined)
    await Promise.race([
      close,
      sleep(CLOSE_MS, undefined, { signal: limit.signal }).catch(() => {}),
    ])
    limit.abort()
    await this.#client.disconnect().catch(() => undefined)
  }
}

/** Three keep-alives in the time of a silence. A subscription whose client is gone ends soon. */
function requestedCounts(silenceMs: number, publishingInterval: number) {
  const count = Math.max(1, Math.floor(silenceMs / 3 / publishingInterval))
  return { requestedMaxKeepAliveCount: count, requestedLifetimeCount: 10 * count }
}

/** The server may choose a longer time between two messages. Any number can come from a server. */
function silenceLimit(
  silenceMs: number,
  { publishingInterval, maxKeepAliveCount }: ClientSubscription,
): number {
  const threeKeepAlives = 3 * publishingInterval * maxKeepAliveCount
  return threeKeepAlives > silenceMs
    ? Math.max(silenceMs, Math.min(threeKeepAlives, LONGEST_SILENCE_MS))
    : silenceMs
}

/** Calls back after a time without a {@link renew}. */
class SilenceWatch {
  readonly #onSilence: (ms: number) => void
  #timer: NodeJS.Timeout | undefined
  #hasEnded = false

  constructor(onSilence: (ms: number) => void) {
    this.#onSilence = onSilence
  }

  begin(ms: number): void {
    clearTimeout(this.#timer)
    if (!this.#hasEnded) this.#timer = setTimeout(this.#onSilence, ms, ms)
  }

  renew(): void {
    this.#timer?.refresh()
  }

  end(): void {
    this.#hasEnded = true
    clearTimeout(this.#timer)
  }
}

/** Rejects with the reason when the signal is aborted. */
async function abortOf(signal: AbortSignal): Promise<never> {
  if (!signal.aborted) await once(signal, 'abort')
  throw signal.reason
}

async function identity() {
  const privateKey = await crypto_utils.generatePrivateKey(2048)
  const { cert } = await crypto_utils.createSelfSignedCertificate({
    privateKey,
    subject: '/CN=opcua-subscriber',
    applicationUri: `urn:${os.hostname()}:opcua-subscriber`,
    dns: [os.hostname()],
    notBefore: new Date(),
    validity: 365,
    purpose: crypto_utils.CertificatePurpose.ForApplication,
  })
  const der = crypto_utils.convertPEMtoDER(cert)
  const key = crypto_utils.makePrivateKeyFromPem(
    (await crypto_utils.privateKeyToPEM(privateKey)).privPem,
  )
  return { getCertificate: () => der, getCertificateChain: () => [der], getPrivateKey: () => key }
}
