import type { NodeName } from '@akrijs/kube/objects'
import { printable } from '@akrijs/runtime'
import type { Device } from '@akrijs/runtime/handler'
import type { DiscoveredDevice } from '../discovery/device-set.js'
import { type DigestLength, deviceDigest } from './instance-name.js'

/**
 * The devices of one Configuration on one node, by their short digest. Devices with one digest
 * compete for one name, so they are planned together: a bucket. Nearly all buckets have one device.
 */
export class DeviceBuckets {
  readonly #node: NodeName
  readonly #byId = new Map<string, DiscoveredDevice>()
  readonly #byDigest = new Map<string, DiscoveredDevice[]>()
  /** The ids that are not printable, by their printable text. */
  readonly #unprintable = new Map<string, Set<string>>()

  constructor(node: NodeName) {
    this.#node = node
  }

  get size(): number {
    return this.#byId.size
  }

  get(id: string): DiscoveredDevice | undefined {
    return this.#byId.get(id)
  }

  ids(): Iterable<string> {
    return this.#byId.keys()
  }

  digests(): Iterable<string> {
    return this.#byDigest.keys()
  }

  /** The devices with this short digest, in the order of their ids. */
  of(digest: string): readonly DiscoveredDevice[] {
    return this.#byDigest.get(digest) ?? []
  }

  /** The devices whose printable id is this text. */
  withText(text: string): DiscoveredDevice[] {
    return [text, ...(this.#unprintable.get(text) ?? [])].flatMap((id) => {
      const found = this.#byId.get(id)
      return found !== undefined && printable(id) === text ? found : []
    })
  }

  digestOf(found: DiscoveredDevice, length: DigestLength = 'short'): string {
    return digestOf(found, this.#node, length)
  }

  /**
   * @param found undefined if the device is gone
   * @returns the digests whose devices have changed
   */
  set(id: string, found: DiscoveredDevice | undefined): ReadonlySet<string> {
    const changed = new Set<string>()
    const before = this.#byId.get(id)
    const text = printable(id)
    if (before !== undefined) {
      const digest = this.digestOf(before)
      changed.add(digest)
      const bucket = this.#byDigest.get(digest) ?? []
      bucket.splice(placeOf(id, bucket), 1)
      if (bucket.length === 0) this.#byDigest.delete(digest)
    }
    if (found === undefined) {
      this.#byId.delete(id)
      const ids = this.#unprintable.get(text)
      ids?.delete(id)
      if (ids?.size === 0) this.#unprintable.delete(text)
      return changed
    }
    this.#byId.set(id, found)
    if (text !== id) this.#unprintable.set(text, (this.#unprintable.get(text) ?? new Set()).add(id))
    const digest = this.digestOf(found)
    const bucket = this.#byDigest.get(digest) ?? []
    bucket.splice(placeOf(id, bucket), 0, found)
    this.#byDigest.set(digest, bucket)
    return changed.add(digest)
  }
}

/**
 * The place of an id in a bucket. A handler can choose ids with one digest: buckets can be long.
 */
function placeOf(id: string, bucket: readonly DiscoveredDevice[]): number {
  let [from, to] = [0, bucket.length]
  while (from < to) {
    const middle = (from + to) >> 1
    if ((bucket[middle]?.device.id ?? '') < id) from = middle + 1
    else to = middle
  }
  return from
}

interface CachedDigests {
  readonly seenBy: NodeName | 'all'
  readonly short: string
  long?: string
}

/** A digest costs more than all other planning of a device. */
const digests = new WeakMap<Device, CachedDigests>()

export function digestOf(
  { device, shared }: DiscoveredDevice,
  node: NodeName,
  length: DigestLength,
): string {
  const seenBy = shared ? 'all' : node
  const place = shared ? ({ shared } as const) : ({ shared, node } as const)
  let cached = digests.get(device)
  if (cached?.seenBy !== seenBy) {
    cached = { seenBy, short: deviceDigest(device.id, place) }
    digests.set(device, cached)
  }
  if (length === 'short') return cached.short
  cached.long ??= deviceDigest(device.id, place, 'long')
  return cached.long
}
