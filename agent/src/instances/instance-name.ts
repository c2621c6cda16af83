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

/** A digest of a device, and the name of an Instance with the digest. */
export interface DigestedName {
  readonly digest: string
  readonly name: InstanceName
}

/**
 * The digests of the devices of one Configuration. They take longer than the rest of the plan of a
 * device, so they are kept.
 */
export class DeviceDigests {
  readonly #configuration: ConfigurationName
  readonly #node: NodeName
  readonly #kept = new Map<string, DigestedName>()

  constructor(configuration: ConfigurationName, node: NodeName) {
    this.#configuration = configuration
    this.#node = node
  }

  /** Begins a plan. Devices that always change must not fill the memory. */
  begin(devices: number): void {
    if (this.#kept.size > 4 * devices) this.#kept.clear()
  }

  of(id: string, shared: boolean, length: DigestLength = 'short'): DigestedName {
    const key = `${length} ${shared} ${id}`
    const kept = this.#kept.get(key)
    if (kept !== undefined) return kept
    const place = shared ? ({ shared } as const) : ({ shared, node: this.#node } as const)
    const digest = deviceDigest(id, place, length)
    const named = { digest, name: instanceName(this.#configuration, digest) }
    this.#kept.set(key, named)
    return named
  }
}
