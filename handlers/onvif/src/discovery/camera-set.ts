import type { Clock } from '@akrijs/sdk'
import type { CameraFacts } from '../device/camera.js'
import { QUERIES, QUERIES_AFTER_HELLO, REQUERIES_PER_ROUND } from '../limits.js'
import {
  answered,
  type CameraAnnouncement,
  type CameraEntry,
  failed,
  heard,
  isDisplacedBy,
  isOwnAddress,
  isSameCamera,
  isUrgent,
  type PresenceKind,
  type QueryAnswer,
  queryStarted,
  queryUrls,
  roundEnded,
  zoneOf,
} from './camera-entry.js'
import { type CameraIdentity, CameraIndex, type ReachedLimit } from './camera-index.js'

/** A camera that has answered. */
export interface Camera {
  readonly uuid: string
  readonly url: string
  readonly scopes: readonly string[]
  readonly facts: CameraFacts
}

/** A query to make: call the URLs in order until one of them answers. */
export interface CameraQuery {
  readonly id: string
  readonly uuid: string
  readonly urls: readonly string[]
  readonly source: string
  /** The interface that leads to the link-local address of a URL. */
  readonly zones: ReadonlyMap<string, string | undefined>
}

export interface CameraSetOptions {
  readonly identity: CameraIdentity
  /** The longest time between two queries of a camera, in milliseconds. */
  readonly refreshMs: number
  /** Whether the filters accept a camera by its announcement. Other cameras are not queried. */
  readonly accepts: (announcement: CameraAnnouncement) => boolean
  readonly clock: Clock
}

/**
 * How long after a Bye a ProbeMatch does not count: it may have been under way. In milliseconds.
 */
const DEPARTURE_MS = 5000

/**
 * The cameras that were heard of. The set decides which announcements count, when a camera is
 * queried, and when it is gone. It joins the transitions of camera-entry.ts and the index of
 * camera-index.ts, and does no I/O.
 */
export class CameraSet {
  readonly #options: CameraSetOptions
  readonly #random: () => number
  readonly #index: CameraIndex
  /** When the departure of a device ends, by its UUID and address. */
  readonly #departures = new Map<string, number>()
  /** Ids of known cameras, and of candidates that failed before, to query when there are places. */
  #requeries = new Set<string>()

  /** @param random returns numbers of [0, 1) */
  constructor(options: CameraSetOptions, random = Math.random) {
    this.#options = options
    this.#random = random
    this.#index = new CameraIndex(options.identity)
  }

  /** Cameras that have answered, in the order of their first announcement. */
  get cameras(): Camera[] {
    return this.#index.entries.flatMap(({ announcement, state }) => {
      if (state.kind === 'candidate' || !this.#options.accepts(announcement)) return []
      const { uuid, scopes } = announcement
      return [{ uuid, url: state.url, scopes, facts: state.facts }]
    })
  }

  get ids(): ReadonlySet<string> {
    return new Set(this.#index.entries.map(({ id }) => id))
  }

  /** Devices that the filters accept, and that have not answered as cameras. */
  get candidates(): { readonly id: string; readonly uuid: string; readonly source: string }[] {
    return this.#index.entries.flatMap(({ id, announcement, state }) =>
      state.kind === 'candidate' && this.#options.accepts(announcement)
        ? [{ id, uuid: announcement.uuid, source: announcement.source }]
        : [],
    )
  }

  /** The number of cameras that have answered at this address, or were heard from it. */
  camerasAt(address: string): number {
    return this.#index.camerasAt(address)
  }

  /**
   * Takes the answer to a Probe, or a Hello.
   * @returns the limit that does not allow another camera
   */
  heard(kind: PresenceKind, announcement: CameraAnnouncement): ReachedLimit | undefined {
    const { uuid, source } = announcement
    const departure = departureKey(uuid, source)
    if (kind === 'ProbeMatch' && this.#now < (this.#departures.get(departure) ?? 0))
      return undefined
    this.#departures.delete(departure)
    const entry = this.#index.find(announcement) ?? this.#add(announcement)
    if (typeof entry === 'string') return entry
    if (entry) this.#index.replace(entry, heard(entry, kind, announcement, this.#now))
    return undefined
  }

  /**
   * Takes an announcement without URLs. If it comes from the place of one device, it counts for the
   * URLs of that device: a Resolve for each camera in each round would be too many.
   * @returns whether the device is a camera that answers, and whose URLs have not changed;
   * undefined if there is no such device
   */
  heardWithoutUrls({
    uuid,
    scopes,
    source,
    metadataVersion,
  }: CameraAnnouncement): boolean | undefined {
    const [entry, ...others] = this.#index
      .withUuid(uuid)
      .filter((entry) => entry.announcement.source === source || isOwnAddress(entry, source))
    if (entry === undefined || others.length > 0) return undefined
    const announcement = { ...entry.announcement, scopes, source }
    this.#index.replace(entry, heard(entry, 'ProbeMatch', announcement, this.#now))
    const isUnchanged = metadataVersion === entry.announcement.metadataVersion
    return entry.state.kind === 'camera' && entry.failures === 0 && isUnchanged
  }

  /**
   * Takes a Bye, which counts from the camera's own address only. A camera that is switched off and
   * says so from another of its addresses is gone after its silent rounds.
   * @returns whether a camera is gone
   */
  bye(uuid: string, source: string): boolean {
    const departed = this.#index.withUuid(uuid).filter((entry) => isOwnAddress(entry, source))
    for (const entry of departed) {
      this.#index.replace(entry, undefined)
      this.#departures.set(departureKey(uuid, source), this.#now + DEPARTURE_MS)
    }
    return departed.some(({ state }) => state.kind === 'camera')
  }

  /**
   * Ends a round: a camera is gone that was silent in too many rounds, or in this round while
   * another camera answered in its place.
   */
  endRound(): void {
    for (const cameras of this.#index.camerasByUrl())
      for (const camera of cameras) if (camera.silentRounds === 0) this.#displace(cameras, camera)
    for (const entry of this.#index.entries)
      this.#index.replace(entry, roundEnded(entry, this.#now))
    for (const [key, end] of this.#departures) if (end <= this.#now) this.#departures.delete(key)
    const isNext = ({ id, dueAt, isQueried }: CameraEntry) =>
      dueAt <= this.#now && !isQueried && !this.#requeries.has(id)
    const due = this.#index.entries
      .filter((entry) => isNext(entry) && !isUrgent(entry))
      .filter(({ announcement }) => this.#options.accepts(announcement))
      .sort((a, b) => a.dueAt - b.dueAt)
    const requeries = (['camera', 'candidate'] as const).flatMap((kind) =>
      due.filter(({ state }) => state.kind === kind).slice(0, REQUERIES_PER_ROUND),
    )
    // Those of earlier rounds may wait for places of their address, and hold up no other camera.
    const before = [...this.#requeries].filter((id) => this.#index.get(id) !== undefined)
    this.#requeries = new Set([...before, ...requeries.map(({ id }) => id)])
  }

  /**
   * The queries to make now. Report the result of each by {@link answered} or {@link failed}.
   * Devices that wait longest come first; devices that have said Hello have further places.
   * @param running the address that announced the device, for each query that runs
   */
  due(running: readonly string[]): CameraQuery[] {
    const waiting = this.#index.entries
      .filter((entry) => this.#isDue(entry))
      .sort((a, b) => a.dueAt - b.dueAt)
    const sources = [...running]
    const hasPlace = (source: string, { inAll, perSource }: typeof QUERIES) =>
      sources.length < inAll && sources.filter((other) => other === source).length < perSource
    const take = (entries: readonly CameraEntry[], limits: typeof QUERIES) =>
      entries.flatMap((entry) => {
        const { source } = entry.announcement
        if (!hasPlace(source, limits)) return []
        sources.push(source)
        return [this.#start(entry)]
      })
    const started = take(waiting, QUERIES)
    const isWaiting = ({ id }: CameraEntry) => !started.some((query) => query.id === id)
    const newlyStarted = waiting.filter((entry) => entry.isNewlyStarted && isWaiting(entry))
    return [...started, ...take(newlyStarted, QUERIES_AFTER_HELLO)]
  }

  #isDue(entry: CameraEntry): boolean {
    const { id, dueAt, isQueried, announcement } = entry
    const isAllowed = isUrgent(entry) || this.#requeries.has(id)
    return isAllowed && !isQueried && dueAt <= this.#now && this.#options.accepts(announcement)
  }

  #start(entry: CameraEntry): CameraQuery {
    this.#requeries.delete(entry.id)
    this.#index.replace(entry, queryStarted(entry))
    const { uuid, source } = entry.announcement
    const urls = queryUrls(entry)
    const zones = new Map(urls.map((url) => [url, zoneOf(entry, url)]))
    return { id: entry.id, uuid, urls, source, zones }
  }

  answered(id: string, answer: QueryAnswer): void {
    const entry = this.#index.get(id)
    if (entry === undefined) return
    const refreshAfterMs = () => this.#refreshAfterMs(answer.facts)
    const camera = answered(entry, answer, this.#now, refreshAfterMs)
    this.#index.replace(entry, camera)
    // Without a Hello, the other camera may still answer the Probe of this round.
    if (entry.state.kind === 'candidate' && camera.hasSaidHello)
      this.#displace(this.#index.entries, camera)
  }

  #displace(others: readonly CameraEntry[], camera: CameraEntry): void {
    for (const other of others)
      if (isDisplacedBy(other, camera)) this.#index.replace(other, undefined)
  }

  /** @returns the number of failures in a row */
  failed(id: string): number {
    const entry = this.#index.get(id)
    if (entry === undefined) return 0
    this.#index.replace(entry, failed(entry, this.#now))
    return entry.failures + 1
  }

  /** Whether the facts from a URL belong to the camera: another camera may have got its address. */
  isSameCamera(id: string, url: string, facts: CameraFacts): boolean {
    const entry = this.#index.get(id)
    return entry === undefined || isSameCamera(entry, url, facts)
  }

  get #now(): number {
    return this.#options.clock.monotonicMs()
  }

  #add(announcement: CameraAnnouncement): CameraEntry | ReachedLimit | undefined {
    return this.#options.accepts(announcement)
      ? this.#index.add(announcement, this.#now)
      : undefined
  }

  #refreshAfterMs({ authentication }: CameraFacts): number {
    const { refreshMs } = this.#options
    // A refused credential is not tried again before the whole time is over. Other cameras spread
    // their queries.
    return authentication === 'refused' ? refreshMs : refreshMs * (0.75 + this.#random() / 4)
  }
}

function departureKey(uuid: string, source: string): string {
  return `${uuid} ${source}`
}
