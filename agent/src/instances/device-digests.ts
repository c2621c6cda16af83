import type { NodeName } from '@akrijs/kube/objects'
import { type DigestLength, deviceDigest } from './instance-name.js'

type Digests = Partial<Record<DigestLength, string>>

interface DigestedDevice {
  readonly device: { readonly id: string }
  readonly shared: boolean
}

/**
 * The digests of the devices of one Configuration. A digest takes longer than the rest of the plan
 * of a device, so the digests of the plan before are kept.
 */
export class DeviceDigests {
  readonly #node: NodeName
  #before = new Map<string, Digests>()
  #now = new Map<string, Digests>()

  constructor(node: NodeName) {
    this.#node = node
  }

  /** Begins a plan. A device that this plan does not ask for is forgotten with the next plan. */
  begin(): void {
    this.#before = this.#now
    this.#now = new Map()
  }

  of({ device: { id }, shared }: DigestedDevice, length: DigestLength = 'short'): string {
    const place = shared ? ({ shared } as const) : ({ shared, node: this.#node } as const)
    const key = `${shared} ${id}`
    const known = this.#now.get(key) ?? this.#before.get(key) ?? {}
    this.#now.set(key, known)
    known[length] ??= deviceDigest(id, place, length)
    return known[length]
  }
}
