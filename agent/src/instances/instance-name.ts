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

interface DigestedDevice {
  readonly device: { readonly id: string }
  readonly shared: boolean
}

interface KnownDevice extends Partial<Record<DigestLength, DigestedName>> {
  readonly shared: boolean
}

/**
 * The digests of the devices of one Configuration. They take longer than the rest of the plan of a
 * device, so those of the plan before are kept.
 */
export class DeviceDigests {
  readonly #configuration: ConfigurationName
  readonly #node: NodeName
  /** By the id of the device. */
  readonly #known = new Map<string, KnownDevice>()

  constructor(configuration: ConfigurationName, node: NodeName) {
    this.#configuration = configuration
    this.#node = node
  }

  /** Begins a plan: forgets the devices that there are no more. */
  begin(devices: ReadonlyMap<string, unknown>): void {
    if (this.#known.size <= devices.size) return
    for (const id of this.#known.keys()) if (!devices.has(id)) this.#known.delete(id)
  }

  of({ device: { id }, shared }: DigestedDevice, length: DigestLength = 'short'): DigestedName {
    const before = this.#known.get(id)
    const known: KnownDevice = before?.shared === shared ? before : { shared }
    if (known !== before) this.#known.set(id, known)
    known[length] ??= this.#name(id, shared, length)
    return known[length]
  }

  #name(id: string, shared: boolean, length: DigestLength): DigestedName {
    const place = shared ? ({ shared } as const) : ({ shared, node: this.#node } as const)
    const digest = deviceDigest(id, place, length)
    return { digest, name: instanceName(this.#configuration, digest) }
  }
}
