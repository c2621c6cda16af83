import os from 'node:os'
import type { KeyPair } from '../credentials.js'
import type { NodeOpcua } from './node-opcua.js'

/** What node-opcua asks for the certificate that an application shows, and its key. */
export type ClientIdentity = NonNullable<
  NonNullable<Parameters<NodeOpcua['OPCUAClient']['create']>[0]>['certificateKeyPairProvider']
>

/** How long a certificate that was made here is good for, in days. */
const VALIDITY_DAYS = 365

/**
 * The certificate that servers see of this handler. Without a given one it is made anew in each process: it encrypts as well, but
 * no server can know it before. Nothing is written anywhere: node-opcua's own way would be a folder in the home directory.
 */
export async function clientIdentity(
  library: NodeOpcua,
  given: KeyPair | undefined,
): Promise<ClientIdentity> {
  const { crypto_utils: crypto } = library
  const pair =
    given === undefined
      ? await makePair(library)
      : { der: given.certificate.raw, privateKey: given.privateKey }
  const privateKey = crypto.makePrivateKeyFromPem(pair.privateKey)
  return {
    getCertificate: () => pair.der,
    getCertificateChain: () => [pair.der],
    getPrivateKey: () => privateKey,
  }
}

async function makePair({
  crypto_utils: crypto,
}: NodeOpcua): Promise<{ der: Buffer; privateKey: string }> {
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
