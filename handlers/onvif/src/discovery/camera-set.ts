import { type Clock, Presence } from '@akrijs/sdk'
import { addressOfUrl, plainAddress } from '@akrijs/sdk/network'
import type { CameraFacts } from '../device/camera.js'

/** What a camera said of itself, as far as it is believed. */
export interface Announced {
  readonly uuid: string
  /** Where its device service is, the most wanted first. Those that may not be asked are left out; there is at least one. */
  readonly urls: readonly string[]
  readonly scopes: readonly string[]
  readonly metadataVersion: number | undefined
  /** The address that it was heard from, with a zone where it has one. */
  readonly source: string
}

/** A camera that has answered. */
export interface Camera {
  readonly uuid: string
  readonly url: string
  readonly scopes: readonly string[]
  readonly facts: CameraFacts
}

/** What is to be asked of a camera, one URL after the other until one answers. */
export interface Reading {
  readonly id: string
  readonly uuid: string
  readonly urls: readonly string[]
  readonly source: string
}

export interface CameraSetOptions {
  /**
   * What makes two announcements those of one camera. `url`: the same UUID and a URL in common, so that several devices with
   * one UUID are several. `uuid`: the UUID alone, wherever it is.
   */
  readonly identity: 'url' | 'uuid'
  /** How old what is known of a camera may get, in milliseconds. */
  readonly refreshMs: number
  /** Whether a camera is wanted, by what it says of itself. Others are not asked. */
  readonly wanted: (announced: Announced) => boolean
  readonly clock: Clock
  /** Of [0, 1). @default Math.random */
  readonly random?: () => number
}

/** In how many rounds in a row a camera may be silent: each round sends two Probes on each interface, five times each. */
const MISSES_ALLOWED = 2
const MAX_CAMERAS = 1000
/** How many may be announced from one address. Recorders and encoders announce theirs from one. */
const MAX_PER_SOURCE = 32
/** How many addresses may say where else a camera is, and how many URLs are tried for one. */
const MAX_CLAIMS = 8
const MAX_URLS = 8
/** After so many failures in a row a camera that was known is not any more. */
const MAX_FAILURES = 3
/** Whatever a camera says, it is not asked sooner again, in milliseconds. */
const MIN_REFRESH_MS = 30_000
/** The wait after the first failure, twice as long after each further one, in milliseconds. */
const FIRST_RETRY_MS = 5000
const LAST_RETRY_MS = 600_000
/** How long answers that were under way when a camera said goodbye are not taken for a return, in milliseconds. */
const GOODBYE_MS = 5000

interface Known {
  readonly url: string
  /** Those before it in its announcement, which did not answer when it did: it moves to the first that does, as if that always had. */
  readonly preferred: readonly string[]
  readonly facts: CameraFacts
  /** When it answered, in milliseconds since the epoch. */
  readonly at: number
}

interface Entry {
  readonly id: string
  readonly uuid: string
  /** The address that counts for how many there may be of one. */
  readonly firstSource: string
  announced: Announced
  known: Known | undefined
  /** What others say where it is, by their addresses. */
  readonly claims: Map<string, Announced>
  /** Whether it was heard in this round where it is known to be. */
  atHome: boolean
  /** Somebody said goodbye in its name. */
  leaving: boolean
  reading: boolean
  failures: number
  /** When it is to be asked, in milliseconds since the epoch. */
  due: number
}

/**
 * The cameras that were heard of. Decides what is believed of what anybody may say, when a camera is to be asked, and when
 * it is gone; asks nobody itself.
 */
export class CameraSet {
  readonly #options: CameraSetOptions
  readonly #entries = new Map<string, Entry>()
  readonly #byUuid = new Map<string, Set<Entry>>()
  readonly #bySource = new Map<string, number>()
  readonly #presence = new Presence<{ readonly id: string }>({ missesAllowed: MISSES_ALLOWED })
  #seen = new Map<string, { readonly id: string }>()
  readonly #departed = new Map<string, number>()
  /** How many are known to be at an address, where that has not changed since. */
  #knownAt: ReadonlyMap<string, number> | undefined
  #count = 0

  constructor(options: CameraSetOptions) {
    this.#options = options
  }

  /** Cameras that have answered, in the order in which they were first heard of. */
  get cameras(): Camera[] {
    return [...this.#entries.values()].flatMap(({ uuid, announced, known }) =>
      known === undefined || !this.#options.wanted(announced)
        ? []
        : [{ uuid, url: known.url, scopes: announced.scopes, facts: known.facts }],
    )
  }

  /** How many of those that have answered are at this address, or were heard from it. */
  knownAt(address: string): number {
    this.#knownAt ??= countHomes(this.#entries.values())
    return this.#knownAt.get(plainAddress(address)) ?? 0
  }

  /** Takes an answer to a Probe, or a Hello. */
  heard(kind: 'ProbeMatch' | 'Hello', announced: Announced): void {
    const departed = departureKey(announced.uuid, announced.source)
    const now = this.#options.clock.monotonicMs()
    if (kind === 'ProbeMatch' && isAhead(this.#departed.get(departed) ?? 0, now, GOODBYE_MS)) return
    this.#departed.delete(departed)
    const entry = this.#entryOf(announced) ?? this.#add(announced)
    if (entry === undefined) return
    this.#seen.set(entry.id, { id: entry.id })
    if (entry.known === undefined) this.#heardUnknown(entry, kind, announced)
    else if (announced.urls.includes(entry.known.url))
      this.#heardAtHome(entry, entry.known, kind, announced)
    else claim(entry, announced)
  }

  /**
   * Takes a Bye. One from the camera's own address counts at once; any other is a reason to ask the camera.
   * @returns whether a camera is gone
   */
  saidGoodbye(uuid: string, source: string): boolean {
    let gone = false
    for (const entry of [...(this.#byUuid.get(uuid) ?? [])]) {
      if (
        isFrom(source, entry.known?.url ?? entry.announced.urls[0] ?? '', entry.announced.source)
      ) {
        gone ||= entry.known !== undefined
        this.#remove(entry)
        this.#departed.set(
          departureKey(uuid, source),
          this.#options.clock.monotonicMs() + GOODBYE_MS,
        )
      } else if (entry.known !== undefined && this.#hurry(entry, entry.known)) entry.leaving = true
    }
    return gone
  }

  /** Ends a round: whoever was silent in too many is gone. */
  endRound(): void {
    const now = this.#options.clock.monotonicMs()
    const there = new Set(this.#presence.round(this.#seen.values()).map(({ id }) => id))
    this.#seen = new Map()
    for (const entry of [...this.#entries.values()]) {
      if (!there.has(entry.id)) this.#remove(entry)
      else if (entry.atHome) entry.claims.clear()
      // It was silent where it is known to be, and said to be elsewhere.
      else if (entry.known !== undefined && entry.claims.size > 0)
        entry.due = Math.min(entry.due, now)
      entry.atHome = false
    }
    for (const [key, until] of this.#departed)
      if (!isAhead(until, now, GOODBYE_MS)) this.#departed.delete(key)
  }

  /**
   * What is to be asked now: who has never been asked, whom somebody said goodbye for, and of those who are known, and of those
   * who did not answer, as many as given, those that wait longest first. Each must be told of by {@link answered} or {@link failed}.
   */
  due(most: number): Reading[] {
    const now = this.#options.clock.monotonicMs()
    const longest = Math.max(this.#options.refreshMs, LAST_RETRY_MS)
    const due = [...this.#entries.values()]
      .filter(
        (entry) =>
          !entry.reading &&
          !isAhead(entry.due, now, longest) &&
          this.#options.wanted(entry.announced),
      )
      .sort((a, b) => a.due - b.due)
    const urgent = due.filter(isUrgent)
    const known = due
      .filter((entry) => !isUrgent(entry) && entry.known !== undefined)
      .slice(0, most)
    const failing = due
      .filter((entry) => !isUrgent(entry) && entry.known === undefined)
      .slice(0, most)
    return [...urgent, ...known, ...failing].map((entry) => {
      entry.reading = true
      const { id, uuid, announced, known: before, claims } = entry
      const urls = [
        ...(before === undefined
          ? announced.urls
          : [...stillPreferred(before, announced), before.url]),
        ...[...claims.values()].flatMap((claimed) => claimed.urls),
      ]
      return { id, uuid, urls: [...new Set(urls)].slice(0, MAX_URLS), source: announced.source }
    })
  }

  /**
   * @param url the one that answered
   * @param silent those that were asked before it, and did not
   */
  answered(id: string, url: string, facts: CameraFacts, silent: readonly string[]): void {
    const entry = this.#entries.get(id)
    if (entry === undefined) return
    const now = this.#options.clock.monotonicMs()
    const { announced, claims, known } = entry
    if (!announced.urls.includes(url))
      entry.announced = [...claims.values()].find(({ urls }) => urls.includes(url)) ?? announced
    // What it told before it still is, where it stopped answering in between.
    const before = facts.incomplete !== undefined && known?.url === url ? known.facts : undefined
    const { urls } = entry.announced
    const preferred = urls
      .slice(0, Math.max(urls.indexOf(url), 0))
      .filter((one) => silent.includes(one))
    entry.known = { url, preferred, facts: before ?? facts, at: now }
    this.#knownAt = undefined
    entry.leaving = false
    entry.failures = 0
    // Soon, before anybody has got used to where it is.
    const isUnsettled = preferred.length > 0 && known?.url !== url
    entry.due = now + (isUnsettled ? MIN_REFRESH_MS : this.#refreshMs(facts))
    asked(entry)
  }

  #refreshMs({ incomplete, authentication }: CameraFacts): number {
    const { refreshMs, random = Math.random } = this.#options
    if (incomplete !== undefined) return MIN_REFRESH_MS
    // A credential is not tried again before all of that is over.
    if (authentication === 'refused') return refreshMs
    // Not all of those that were found together again together.
    return refreshMs * (0.75 + random() / 4)
  }

  /** @returns how often in a row it has failed now */
  failed(id: string): number {
    const entry = this.#entries.get(id)
    if (entry === undefined) return 0
    entry.due =
      this.#options.clock.monotonicMs() +
      Math.min(FIRST_RETRY_MS * 2 ** entry.failures, LAST_RETRY_MS)
    entry.failures++
    if (entry.failures >= MAX_FAILURES) this.#forget(entry)
    asked(entry)
    if (entry.leaving) this.#remove(entry)
    return entry.failures
  }

  /**
   * Whether what answers at the URL of a camera still is that camera: while it is said to be elsewhere, another one may be there, and
   * at a URL where nobody has answered so far.
   */
  isStill(id: string, url: string, facts: CameraFacts): boolean {
    const { known, claims } = this.#entries.get(id) ?? {}
    if (known === undefined) return true
    const isToBeTold = url === known.url ? claims?.size !== 0 : known.preferred.includes(url)
    if (!isToBeTold) return true
    const differs = (a: string | undefined, b: string | undefined) =>
      a !== undefined && b !== undefined && a !== b
    return (
      !differs(known.facts.serialNumber, facts.serialNumber) &&
      !differs(known.facts.macAddress, facts.macAddress)
    )
  }

  #heardUnknown(entry: Entry, kind: 'ProbeMatch' | 'Hello', announced: Announced): void {
    const isNews =
      kind === 'Hello' || announced.urls.some((url) => !entry.announced.urls.includes(url))
    if (!isNews) return
    claim(entry, announced)
    // Reason enough to ask again, but not over and over.
    entry.due = Math.min(entry.due, this.#options.clock.monotonicMs() + FIRST_RETRY_MS)
  }

  #heardAtHome(
    entry: Entry,
    known: Known,
    kind: 'ProbeMatch' | 'Hello',
    announced: Announced,
  ): void {
    entry.atHome = true
    // Anybody can say anything of a camera; what changes it must come from itself.
    if (!isFrom(announced.source, known.url, entry.announced.source)) return
    if (kind === 'Hello' || announced.metadataVersion !== entry.announced.metadataVersion)
      this.#hurry(entry, known)
    if (announced.source !== entry.announced.source) this.#knownAt = undefined
    entry.announced = announced
  }

  #forget(entry: Entry): void {
    entry.known = undefined
    this.#knownAt = undefined
  }

  /** @returns whether it is asked now */
  #hurry(entry: Entry, known: Known): boolean {
    const now = this.#options.clock.monotonicMs()
    const soonest = Math.max(now, known.at + MIN_REFRESH_MS)
    entry.due = Math.min(entry.due, soonest)
    return soonest === now
  }

  #entryOf({ uuid, urls }: Announced): Entry | undefined {
    const entries = [...(this.#byUuid.get(uuid) ?? [])]
    if (this.#options.identity === 'uuid') return entries[0]
    const at = (entry: Entry) =>
      entry.known === undefined ? entry.announced.urls : [entry.known.url]
    // One that has answered before one that has not.
    return (
      entries.find(({ known }) => known !== undefined && urls.includes(known.url)) ??
      entries.find((entry) => at(entry).some((url) => urls.includes(url)))
    )
  }

  #add(announced: Announced): Entry | undefined {
    const { uuid, source } = announced
    const fromSource = this.#bySource.get(source) ?? 0
    if (!this.#options.wanted(announced)) return undefined
    if (fromSource >= MAX_PER_SOURCE || !this.#makeRoom()) return undefined
    const entry: Entry = {
      id: String(++this.#count),
      uuid,
      firstSource: source,
      announced,
      known: undefined,
      claims: new Map(),
      atHome: false,
      leaving: false,
      reading: false,
      failures: 0,
      due: this.#options.clock.monotonicMs(),
    }
    this.#entries.set(entry.id, entry)
    this.#byUuid.set(uuid, (this.#byUuid.get(uuid) ?? new Set()).add(entry))
    this.#bySource.set(source, fromSource + 1)
    return entry
  }

  /** Who has never answered makes room for somebody who may. */
  #makeRoom(): boolean {
    if (this.#entries.size < MAX_CAMERAS) return true
    const [worst] = [...this.#entries.values()]
      .filter(({ known, failures }) => known === undefined && failures > 0)
      .sort((a, b) => b.failures - a.failures)
    if (worst === undefined) return false
    this.#remove(worst)
    return true
  }

  #remove(entry: Entry): void {
    this.#entries.delete(entry.id)
    this.#seen.delete(entry.id)
    this.#presence.forget(entry.id)
    if (entry.known !== undefined) this.#knownAt = undefined
    const entries = this.#byUuid.get(entry.uuid)
    entries?.delete(entry)
    if (entries?.size === 0) this.#byUuid.delete(entry.uuid)
    const left = (this.#bySource.get(entry.firstSource) ?? 1) - 1
    if (left > 0) this.#bySource.set(entry.firstSource, left)
    else this.#bySource.delete(entry.firstSource)
  }
}

/** Whether a time is still to come. One that is further ahead than it can have been set is of a clock that was put back since. */
function isAhead(time: number, now: number, longest: number): boolean {
  return now < time && time <= now + longest
}

/** Those that it still announces itself: others may have said the rest of them. */
function stillPreferred({ preferred }: Known, { urls }: Announced): readonly string[] {
  return preferred.filter((url) => urls.includes(url))
}

function isUrgent({ known, failures, leaving }: Entry): boolean {
  return leaving || (known === undefined && failures === 0)
}

/** One address has one say, so that who floods us drowns out nobody. */
function claim({ claims }: Entry, announced: Announced): void {
  if (claims.has(announced.source) || claims.size < MAX_CLAIMS)
    claims.set(announced.source, announced)
}

function asked(entry: Entry): void {
  entry.reading = false
  entry.claims.clear()
}

function departureKey(uuid: string, source: string): string {
  return `${uuid} ${source}`
}

/** Whether a datagram comes from the address of a URL; where that has a name, from the address that named it first. */
function isFrom(source: string, url: string, first: string): boolean {
  const address = addressOfUrl(url)
  return address === undefined ? source === first : address === plainAddress(source)
}

function countHomes(entries: Iterable<Entry>): Map<string, number> {
  const counts = new Map<string, number>()
  for (const { known, announced } of entries) {
    if (known === undefined) continue
    const source = plainAddress(announced.source)
    for (const address of new Set([addressOfUrl(known.url) ?? source, source])) {
      counts.set(address, (counts.get(address) ?? 0) + 1)
    }
  }
  return counts
}
