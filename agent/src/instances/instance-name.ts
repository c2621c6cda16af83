import { type ConfigurationName, GROUP, type InstanceName } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import { blake2b } from '@noble/hashes/blake2.js'

/** The bytes of a digest. A long digest is for a device whose short digest another device has. */
const BYTES = { short: 3, long: 8 } as const

export type DigestLength = keyof typeof BYTES

/**
 * The hexadecimal digits of a device: BLAKE2b over the device's id. The node's name follows the id
 * if only that node can see the device. Other implementations of Akri compute the same short
 * digests.
 */
export function deviceDigest(
  deviceId: string,
  place: { readonly shared: true } | { readonly shared: false; readonly node: NodeName },
  length: DigestLength = 'short',
): string {
  const text = place.shared ? deviceId : deviceId + place.node
  const digest = blake2b(new TextEncoder().encode(text), { dkLen: BYTES[length] })
  return Buffer.from(digest).toString('hex')
}

export function instanceName(configuration: ConfigurationName, digest: string): InstanceName {
  return `${configuration}-${digest}` as InstanceName
}

export function cdiName(configuration: ConfigurationName, digest: string): string {
  return `${GROUP}/${configuration}=${digest}`
}
