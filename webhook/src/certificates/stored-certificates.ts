import { valueAt } from '@akrijs/runtime'
import type { Certificates } from './certificate-plan.js'

// The Secret has the keys `ca.crt` and `ca.key`, and `tls.crt` and `tls.key` as Secrets of type
// `kubernetes.io/tls` have.

const PEM_BLOCK = /-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----\n?/g

/** The certificates in a Secret. */
export function readSecret(secret: unknown): Partial<Certificates> {
  const text = (key: string) => {
    const value = valueAt(secret, 'data', key)
    return typeof value === 'string' ? Buffer.from(value, 'base64').toString('utf8') : undefined
  }
  const keys = ['ca.crt', 'ca.key', 'tls.crt', 'tls.key']
  const [authorities, authorityKey, cert, key] = keys.map(text)
  return {
    ...(authorities === undefined ? {} : { authorities: authorities.match(PEM_BLOCK) ?? [] }),
    ...(authorityKey === undefined ? {} : { authorityKey }),
    ...(cert === undefined || key === undefined ? {} : { server: { cert, key } }),
  }
}

/**
 * The Secret with these certificates.
 * @param before the Secret until now, whose other fields are kept: its type is immutable
 */
export function secretWith(
  { authorities, authorityKey, server }: Certificates,
  before: object,
): object {
  const encoded = (text: string) => Buffer.from(text, 'utf8').toString('base64')
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    ...before,
    data: {
      ...(valueAt(before, 'data') as object | undefined),
      'ca.crt': encoded(bundleOf(authorities)),
      'ca.key': encoded(authorityKey),
      'tls.crt': encoded(server.cert),
      'tls.key': encoded(server.key),
    },
  }
}

/** The authorities as one text, PEM. */
export function bundleOf(authorities: readonly string[]): string {
  return authorities.join('')
}
