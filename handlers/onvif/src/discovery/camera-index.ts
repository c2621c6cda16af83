import { plainAddress } from '@akrijs/sdk/network'
import { MAX_CAMERAS, MAX_CAMERAS_PER_SOURCE } from '../limits.js'
import { type CameraAnnouncement, type CameraEntry, newEntry } from './camera-entry.js'

/**
 * What makes two announcements belong to one camera. `url`: the same UUID and a common URL, so that
 * several devices with one UUID stay apart. `uuid`: the UUID alone.
 */
export type CameraIdentity = 'url' | 'uuid'

/** Why a camera is not added. */
export type ReachedLimit = 'too many cameras' | 'too many cameras of one address'

/** The entries by id, UUID and address, and the limits of their number. */
export class CameraIndex {
  readonly #identity: CameraIdentity
  readonly #entries = new Map<string, CameraEntry>()
  readonly #idsByUuid = new Map<string, Set<string>>()
  readonly #perSource = new Map<string, number>()
  readonly #camerasAt = new Map<string, number>()
  #lastId = 0

  constructor(identity: CameraIdentity) {
    this.#identity = identity
  }

  /** In the order of their first announcement. */
  get entries(): CameraEntry[] {
    return [...this.#entries.values()]
  }

  get(id: string): CameraEntry | undefined {
    return this.#entries.get(id)
  }

  withUuid(uuid: string): CameraEntry[] {
    return [...(this.#idsByUuid.get(uuid) ?? [])].flatMap((id) => this.get(id) ?? [])
  }

  /** The cameras that have answered, those with the same URL together. */
  camerasByUrl(): Iterable<readonly CameraEntry[]> {
    const groups = new Map<string, CameraEntry[]>()
    for (const entry of this.#entries.values()) {
      if (entry.state.kind === 'candidate') continue
      const group = groups.get(entry.state.url)
      if (group === undefined) groups.set(entry.state.url, [entry])
      else group.push(entry)
    }
    return groups.values()
  }

  /** The number of cameras that have answered at this address, or were heard from it. */
  camerasAt(address: string): number {
    return this.#camerasAt.get(plainAddress(address)) ?? 0
  }

  /** The entry that an announcement belongs to. */
  find({ uuid, urls }: CameraAnnouncement): CameraEntry | undefined {
    const entries = this.withUuid(uuid)
    if (this.#identity === 'uuid') return entries[0]
    return (
      entries.find(({ state }) => state.kind === 'camera' && urls.includes(state.url)) ??
      entries.find(
        ({ state, announcement }) =>
          state.kind === 'candidate' && announcement.urls.some((url) => urls.includes(url)),
      )
    )
  }

  /** Adds a candidate, if the limits allow it. */
  add(announcement: CameraAnnouncement, now: number): CameraEntry | ReachedLimit {
    const { uuid, source } = announcement
    if ((this.#perSource.get(source) ?? 0) >= MAX_CAMERAS_PER_SOURCE)
      return 'too many cameras of one address'
    if (!this.#makeRoom()) return 'too many cameras'
    const entry = newEntry(String(++this.#lastId), announcement, now)
    this.#entries.set(entry.id, entry)
    this.#idsByUuid.set(uuid, (this.#idsByUuid.get(uuid) ?? new Set()).add(entry.id))
    add(this.#perSource, source, 1)
    return entry
  }

  /** Replaces an entry by the result of a transition; undefined removes it. */
  replace(before: CameraEntry, after: CameraEntry | undefined): void {
    const isMoved =
      after?.state !== before.state || after.announcement.source !== before.announcement.source
    if (isMoved) {
      for (const address of addressesOf(before)) add(this.#camerasAt, address, -1)
      for (const address of addressesOf(after)) add(this.#camerasAt, address, 1)
    }
    if (after === undefined) this.#remove(before)
    else this.#entries.set(after.id, after)
  }

  #remove({ id, announcement, firstSource }: CameraEntry): void {
    this.#entries.delete(id)
    add(this.#perSource, firstSource, -1)
    const ids = this.#idsByUuid.get(announcement.uuid)
    ids?.delete(id)
    if (ids?.size === 0) this.#idsByUuid.delete(announcement.uuid)
  }

  /** Removes the candidate with the most failures if the index is full. */
  #makeRoom(): boolean {
    if (this.#entries.size < MAX_CAMERAS) return true
    const [worst] = this.entries
      .filter(({ state, failures }) => state.kind === 'candidate' && failures > 0)
      .sort((a, b) => b.failures - a.failures)
    if (worst === undefined) return false
    this.replace(worst, undefined)
    return true
  }
}

/** The addresses that a camera is at, or is heard from. */
function addressesOf(entry: CameraEntry | undefined): Set<string> {
  if (entry === undefined || entry.state.kind === 'candidate') return new Set()
  const source = plainAddress(entry.announcement.source)
  return new Set([entry.state.address ?? source, source])
}

function add(counts: Map<string, number>, key: string, difference: number): void {
  const count = (counts.get(key) ?? 0) + difference
  if (count > 0) counts.set(key, count)
  else counts.delete(key)
}
