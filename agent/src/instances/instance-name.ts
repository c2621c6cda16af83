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
  /** By the id of the device: those of each kind. */
  readonly #kept = new Map<string, Map<string, DigestedName>>()

  constructor(configuration: ConfigurationName, node: NodeName) {
    this.#configuration = configuration
    this.#node = node
  }

  /** Begins a plan. Devices that always change must not fill the memory. */
  begin(devices: number): void {
    for (const kept of this.#kept.values()) if (kept.size > 2 * devices) kept.clear()
  }

  of(id: string, shared: boolean, length: DigestLength = 'short'): DigestedName {
    const kind = shared ? length : `local ${length}`
    const kept = this.#kept.get(kind) ?? new Map<string, DigestedName>()
    const before = kept.get(id)
    if (before !== undefined) return before
    const place = shared ? ({ shared } as const) : ({ shared, node: this.#node } as const)
    const digest = deviceDigest(id, place, length)
    const named = { digest, name: instanceName(this.#configuration, digest) }
    this.#kept.set(kind, kept.set(id, named))
    return named
  }
}
