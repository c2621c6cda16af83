import { type ConfigurationName, GROUP, type InstanceName } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import { blake2b } from '@noble/hashes/blake2.js'

/**
 * The six hexadecimal digits that stand for a device: BLAKE2b with a digest of 3 bytes over the device's id, followed by
 * the node's name where only that node can see the device (contract of names, shared with other implementations).
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
