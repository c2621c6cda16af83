import { type ConfigurationName, GROUP, type InstanceName } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import { blake2b } from '@noble/hashes/blake2.js'

/**
 * The six hexadecimal digits of a device: BLAKE2b with a digest of 3 bytes over the device's id.
 * The node's name follows the id if only that node can see the device. Other implementations of
 * Akri compute the same names.
 */
export function deviceDigest(
  deviceId: string,
  place: { readonly shared: true } | { readonly shared: false; readonly node: NodeName },
): string {
  const text = place.shared ? deviceId : deviceId + place.node
  return Buffer.from(blake2b(new TextEncoder().encode(text), { dkLen: 3 })).toString('hex')
}

export function instanceName(configuration: ConfigurationName, digest: string): InstanceName {
  return `${configuration}-${digest}` as InstanceName
}

export function cdiName(configuration: ConfigurationName, digest: string): string {
  return `${GROUP}/${configuration}=${digest}`
}
