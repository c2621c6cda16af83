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

export interface SubscriberOptions {
  /** `opc.tcp://host:port/path` */
  readonly url: string
  /** Such as `ns=2;s=Temperature`. */
  readonly nodeId: string
  /** How often the server looks at the node, in milliseconds. */
  readonly intervalMs: number
  readonly onValue: (value: DataValue) => void
  /** There is no connection, or none any more; it is tried again until there is one, and a subscription goes on. */
  readonly onLost: () => void
  readonly signal: AbortSignal
}

/**
 * Follows a node of a server until the signal is aborted, by a session without security and without a user.
 * @throws Error where the server has no such node, or wants security or a user
 */
export async function subscribe({
  url,
  nodeId,
  intervalMs,
  onValue,
  onLost,
  signal,
}: SubscriberOptions): Promise<void> {
  // What it prints is for people who debug it; what matters comes as errors.
  setWarningLogger(() => undefined)
  setErrorLogger(() => undefined)
  const client = OPCUAClient.create({
    applicationName: 'opcua-subscriber',
    clientName: 'opcua-subscriber',
    // Kept in memory: by default it would be written below the home directory, which a container may not be able to.
    certificateKeyPairProvider: await identity(),
    // The host name that the server calls itself by may be another one.
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
    await aborted(signal)
    await session.close(true)
  } catch (error) {
    // Disconnecting ends whatever is under way.
    if (!signal.aborted) throw error
  } finally {
    signal.removeEventListener('abort', onAbort)
    await client.disconnect()
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve()
    signal.addEventListener('abort', () => resolve(), { once: true })
  })
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
