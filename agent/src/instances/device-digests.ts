import type { ConfigurationName, InstanceName } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import { type DigestLength, deviceDigest, instanceName } from './instance-name.js'

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
