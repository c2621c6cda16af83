import os from 'node:os'
import type { DiscoveryProperties, Logger } from '@akrijs/sdk'
import { readKeyPair } from '../credentials.js'
import type { NodeOpcua } from './node-opcua.js'

/** The form in which node-opcua takes the certificate and the key of an application. */
export type ClientIdentity = NonNullable<
  NonNullable<Parameters<NodeOpcua['OPCUAClient']['create']>[0]>['certificateKeyPairProvider']
>

/** A certificate that is generated is used only as long as the process runs. */
const VALIDITY_DAYS = 365

/** The properties of a Configuration with the certificate of the handler, in PEM. */
const CERTIFICATE = 'client_certificate'
const PRIVATE_KEY = 'client_private_key'

/**
 * The certificate that this handler presents to servers. Without one in the properties, each
 * process generates its own, which encrypts as well, but which no server can trust in advance. The
 * handler keeps the certificate in memory: by default node-opcua writes to the home directory.
 */
export async function clientIdentity(
  library: NodeOpcua,
  properties: DiscoveryProperties,
  log: Logger,
): Promise<ClientIdentity> {
  const { crypto_utils: crypto } = library
  const pair = readIdentity(properties, log) ?? (await generateIdentity(library))
  const privateKey = crypto.makePrivateKeyFromPem(pair.privateKey)
  return {
    getCertificate: () => pair.der,
    getCertificateChain: () => [pair.der],
    getPrivateKey: () => privateKey,
  }
}

interface DerKeyPair {
  readonly der: Buffer
  /** PEM */
  readonly privateKey: string
}

function readIdentity(properties: DiscoveryProperties, log: Logger): DerKeyPair | undefined {
  if (!properties.has(CERTIFICATE) && !properties.has(PRIVATE_KEY)) return undefined
  const pair = readKeyPair(properties.text(CERTIFICATE), properties.text(PRIVATE_KEY))
  if (pair !== undefined) return { der: pair.certificate.raw, privateKey: pair.privateKey }
  const names = { properties: [CERTIFICATE, PRIVATE_KEY] }
  log.warn(names, 'client certificate unusable, generated another')
  return undefined
}

async function generateIdentity({ crypto_utils: crypto }: NodeOpcua): Promise<DerKeyPair> {
  const privateKey = await crypto.generatePrivateKey(2048)
  const { cert } = await crypto.createSelfSignedCertificate({
    privateKey,
    subject: '/CN=akri opcua discovery',
    applicationUri: `urn:${os.hostname()}:akri:opcua`,
    dns: [os.hostname()],
    notBefore: new Date(),
    validity: VALIDITY_DAYS,
    purpose: crypto.CertificatePurpose.ForApplication,
  })
  const { privPem } = await crypto.privateKeyToPEM(privateKey)
  return { der: crypto.convertPEMtoDER(cert), privateKey: privPem }
}
