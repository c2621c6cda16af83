import { createPrivateKey, X509Certificate } from 'node:crypto'
import type { DiscoveryProperties, Logger } from '@akrijs/sdk'
import {
  type CredentialKind,
  DeviceCredentials,
  type PasswordCredential,
} from '@akrijs/sdk/network'

export interface CertificateCredential extends KeyPair {
  readonly kind: 'certificate'
}

/** Whom a server is told that we are. */
export type Credential = PasswordCredential | CertificateCredential

const CERTIFICATES: CredentialKind<CertificateCredential> = {
  parts: ['certificate', 'private_key'],
  expected: 'an RSA certificate and its private_key, both in PEM',
  read(certificate, privateKey) {
    const pair = readKeyPair(certificate, privateKey)
    return pair && { kind: 'certificate', ...pair }
  },
}

/**
 * Credentials of servers, by their application URIs or their discovery URLs: user names with passwords, or certificates of users.
 * Names of properties have letters, digits and `_` only, so every other character may be written, and is read, as `_`:
 * `username_urn_plc1_mixer` is for `urn:plc1:mixer`. That two servers may then have one name gives nothing away: who is given a
 * credential is decided by its certificate.
 */
export function serverCredentials(
  properties: DiscoveryProperties,
  log: Logger,
): DeviceCredentials<CertificateCredential> {
  return new DeviceCredentials(properties, {
    log,
    spelling: (server) => server.replace(/[^A-Za-z0-9]/g, '_'),
    other: CERTIFICATES,
  })
}

export interface KeyPair {
  readonly certificate: X509Certificate
  /** PEM, PKCS #8 */
  readonly privateKey: string
}

/** An RSA certificate and the key that belongs to it; undefined where they are not. Security policies of OPC UA are of RSA. */
export function readKeyPair(
  certificate: string | undefined,
  privateKey: string | undefined,
): KeyPair | undefined {
  if (certificate === undefined || privateKey === undefined) return undefined
  try {
    const read = new X509Certificate(certificate)
    const key = createPrivateKey(privateKey)
    if (key.asymmetricKeyType !== 'rsa' || !read.checkPrivateKey(key)) return undefined
    return {
      certificate: read,
      privateKey: key.export({ type: 'pkcs8', format: 'pem' }).toString(),
    }
  } catch {
    return undefined
  }
}
