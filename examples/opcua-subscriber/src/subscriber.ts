import { once } from 'node:events'
import os from 'node:os'
import {
  AttributeIds,
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
  readonly onValue: (value: DataValue) => void
  /**
   * Called after a failed or lost connection. The client retries, and the subscription continues.
   */
  readonly onLost: () => void
  readonly signal: AbortSignal
}

/**
 * Follows a node of a server until the signal is aborted, in a session without security and user.
 * @throws Error if the server has no such node, or requires security or a user
 */
export async function subscribe({
  url,
  nodeId,
  intervalMs,
  onValue,
  onLost,
  signal,
}: SubscriberOptions): Promise<void> {
  // The library prints to the terminal. Everything important also comes as an error.
  setWarningLogger(() => undefined)
  setErrorLogger(() => undefined)
  const client = OPCUAClient.create({
    applicationName: 'opcua-subscriber',
    clientName: 'opcua-subscriber',
    // Kept in memory: by default, node-opcua writes a file below the home directory, which may be
    // read-only in a container.
    certificateKeyPairProvider: await identity(),
    // The server may report another host name.
    endpointMustExist: false,
    keepSessionAlive: true,
    connectionStrategy: { initialDelay: 500, maxDelay: 10_000, maxRetry: -1 },
  })
  client.on('connection_lost', onLost)
  client.on('backoff', onLost)
  const onAbort = () => void client.disconnect().catch(() => undefined)
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    await client.connect(url)
    const session = await client.createSession()
    const subscription = ClientSubscription.create(session, {
      requestedPublishingInterval: intervalMs,
      publishingEnabled: true,
    })
    const item = await subscription.monitor(
      { nodeId, attributeId: AttributeIds.Value },
      { samplingInterval: intervalMs, queueSize: 10, discardOldest: true },
      TimestampsToReturn.Both,
    )
    if (!item.statusCode.isGood())
      throw new Error(`${nodeId} cannot be followed: ${item.statusCode.toString()}`)
    item.on('changed', onValue)
    if (!signal.aborted) await once(signal, 'abort')
    await session.close(true)
  } catch (error) {
    // A disconnect ends all pending requests with an error.
    if (!signal.aborted) throw error
  } finally {
    signal.removeEventListener('abort', onAbort)
    await client.disconnect()
  }
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
