import { addressOfUrl, plainAddress } from '@akrijs/sdk/network'
import type { CameraFacts } from '../device/camera.js'
import { MAX_URLS } from '../limits.js'

/** What a device announces about itself, without the URLs that the handler may not call. */
export interface CameraAnnouncement {
  readonly uuid: string
  /** URLs of the device service, the preferred URL first. There is at least one. */
  readonly urls: readonly string[]
  readonly scopes: readonly string[]
  readonly metadataVersion: number | undefined
  /** The address that sent the announcement, with its zone if it has one. */
  readonly source: string
  /** The interface that leads to link-local addresses in the URLs. */
  readonly zone?: string | undefined
}

/** An announcement that a device is present. */
export type PresenceKind = 'ProbeMatch' | 'Hello'

/**
 * All that the handler knows about one announced device. The functions below are its transitions;
 * each returns a new entry, or undefined when the device is gone:
 *
 *     newEntry ─► candidate ── answered ──► camera ── failed, 3 times in a row ──► candidate
 *     any state ── roundEnded, after 3 silent rounds ──► gone
 *
 * `heard` adds an announcement, `queryStarted` begins a query. All other transitions keep the
 * state.
 */
export interface CameraEntry {
  readonly id: string
  /**
   * The address that announced the device first: the entry counts for the quota of this address.
   */
  readonly firstSource: string
  readonly announcement: CameraAnnouncement
  readonly state: CandidateState | CameraState
  /** The last announcement that places the device at other URLs. */
  readonly elsewhere: CameraAnnouncement | undefined
  /**
   * Whether the device was announced at its own URL in this round. Then it does not count that the
   * device was announced elsewhere.
   */
  readonly isHeardAtHome: boolean
  /** Rounds that ended since the first and since the last announcement. */
  readonly rounds: number
  readonly silentRounds: number
  readonly hasSaidHello: boolean
  /** Whether the device has said Hello since its last query began. */
  readonly isNewlyStarted: boolean
  /** No Hello makes a query due before this time, in monotonic milliseconds. */
  readonly nextHelloAt: number
  readonly isQueried: boolean
  /** Failed queries in a row. */
  readonly failures: number
  /** When the next query is due, in monotonic milliseconds. */
  readonly dueAt: number
}

/** The device has never answered, or has stopped to answer. */
interface CandidateState {
  readonly kind: 'candidate'
}

/** The device has answered as a camera. */
interface CameraState {
  readonly kind: 'camera'
  readonly url: string
  /** The address of the URL; undefined if the URL has a host name. */
  readonly address: string | undefined
  /**
   * URLs before `url` in the announcement that did not answer. The camera moves to the first of
   * them that answers, so that its id does not depend on a lost packet.
   */
  readonly preferred: readonly string[]
  readonly facts: CameraFacts
  /** When the camera answered, in monotonic milliseconds. */
  readonly answeredAt: number
}

/** The answer to a query. */
export interface QueryAnswer {
  readonly url: string
  readonly facts: CameraFacts
  /** URLs that were called before `url` and did not answer. */
  readonly silentUrls: readonly string[]
}

/**
 * Rounds in a row that a camera may miss: each round sends two Probes on each interface, five times
 * each.
 */
const MISSES_ALLOWED = 2
/** Failed queries in a row after which a camera is a candidate again. */
const MAX_FAILURES = 3
/** No announcement makes the handler query a camera again sooner, in milliseconds. */
const MIN_REFRESH_MS = 30_000
/**
 * The wait after the first failure; each further failure doubles it. It is also the time between
 * two queries because of a Hello. In milliseconds.
 */
const FIRST_RETRY_MS = 5000
const LAST_RETRY_MS = 600_000

const CANDIDATE: CandidateState = { kind: 'candidate' }

export function newEntry(id: string, announcement: CameraAnnouncement, now: number): CameraEntry {
  return {
    id,
    firstSource: announcement.source,
    announcement,
    state: CANDIDATE,
    elsewhere: undefined,
    isHeardAtHome: false,
    rounds: 0,
    silentRounds: 0,
    hasSaidHello: false,
    isNewlyStarted: false,
    nextHelloAt: now,
    isQueried: false,
    failures: 0,
    dueAt: now,
  }
}

export function heard(
  before: CameraEntry,
  kind: PresenceKind,
  announcement: CameraAnnouncement,
  now: number,
): CameraEntry {
  const entry = {
    ...before,
    silentRounds: 0,
    hasSaidHello: before.hasSaidHello || kind === 'Hello',
  }
  const { state } = entry
  if (state.kind === 'camera')
    return announcement.urls.includes(state.url)
      ? heardAtHome(entry, state, kind, announcement, now)
      : { ...entry, elsewhere: announcement }
  if (kind === 'Hello' && isFromItself(announcement)) return woken(entry, announcement, now)
  const isNews =
    kind === 'Hello' || announcement.urls.some((url) => !entry.announcement.urls.includes(url))
  // A reason to query again soon, but not at once: each Hello would cost a query.
  return isNews
    ? { ...entry, elsewhere: announcement, dueAt: Math.min(entry.dueAt, now + FIRST_RETRY_MS) }
    : entry
}

/** A device that failed before has been switched on: it is queried at once, but not repeatedly. */
function woken(entry: CameraEntry, announcement: CameraAnnouncement, now: number): CameraEntry {
  const helloAt = Math.max(now, entry.nextHelloAt)
  return {
    ...entry,
    elsewhere: announcement,
    isNewlyStarted: true,
    // A new device is queried in any case.
    nextHelloAt: entry.failures === 0 ? helloAt : helloAt + FIRST_RETRY_MS,
    dueAt: Math.min(entry.dueAt, helloAt),
  }
}

function heardAtHome(
  entry: CameraEntry,
  state: CameraState,
  kind: PresenceKind,
  announcement: CameraAnnouncement,
  now: number,
): CameraEntry {
  // Any host can announce a camera: only an announcement from the camera's own address changes the
  // entry.
  if (!isOwnAddress(entry, announcement.source)) return { ...entry, isHeardAtHome: true }
  const isChanged =
    kind === 'Hello' || announcement.metadataVersion !== entry.announcement.metadataVersion
  const dueAt = isChanged ? Math.min(entry.dueAt, soonestQuery(state, now)) : entry.dueAt
  return { ...entry, isHeardAtHome: true, announcement, dueAt }
}

export function roundEnded(entry: CameraEntry, now: number): CameraEntry | undefined {
  if (entry.silentRounds > MISSES_ALLOWED) return undefined
  const { state, isHeardAtHome, dueAt } = entry
  const elsewhere = isHeardAtHome ? undefined : entry.elsewhere
  // The camera was silent at its own URL.
  const mayHaveMoved = state.kind === 'camera' && elsewhere !== undefined
  return {
    ...entry,
    rounds: entry.rounds + 1,
    silentRounds: entry.silentRounds + 1,
    isHeardAtHome: false,
    elsewhere,
    dueAt: mayHaveMoved ? Math.min(dueAt, now) : dueAt,
  }
}

export function queryStarted(entry: CameraEntry): CameraEntry {
  return { ...entry, isQueried: true, isNewlyStarted: false }
}

/**
 * @param refreshAfterMs the wait until the next query of a camera that answered completely and at
 * its preferred URL
 */
export function answered(
  entry: CameraEntry,
  { url, facts, silentUrls }: QueryAnswer,
  now: number,
  refreshAfterMs: () => number,
): CameraEntry {
  const { state } = entry
  const announcement =
    announcementsOf(entry).find(({ urls }) => urls.includes(url)) ?? entry.announcement
  const { urls } = announcement
  const preferred = urls
    .slice(0, Math.max(urls.indexOf(url), 0))
    .filter((other) => silentUrls.includes(other))
  const before = state.kind === 'camera' && state.url === url ? state : undefined
  // A camera that has just settled at a later URL is queried soon, before anything depends on its
  // id.
  const isSoon = (preferred.length > 0 && before === undefined) || facts.incomplete !== undefined
  return {
    ...entry,
    announcement,
    state: {
      kind: 'camera',
      url,
      address: addressOfUrl(url),
      preferred,
      // An interrupted answer does not remove earlier facts.
      facts: facts.incomplete === undefined ? facts : (before?.facts ?? facts),
      answeredAt: now,
    },
    elsewhere: undefined,
    isQueried: false,
    isNewlyStarted: false,
    failures: 0,
    dueAt: now + (isSoon ? MIN_REFRESH_MS : refreshAfterMs()),
  }
}

export function failed(entry: CameraEntry, now: number): CameraEntry {
  const { state, failures, isNewlyStarted, elsewhere, dueAt } = entry
  const retryAt = now + Math.min(FIRST_RETRY_MS * 2 ** failures, LAST_RETRY_MS)
  return {
    ...entry,
    state: failures + 1 >= MAX_FAILURES ? CANDIDATE : state,
    // A Hello during the query is newer than its result.
    elsewhere: isNewlyStarted ? elsewhere : undefined,
    isQueried: false,
    failures: failures + 1,
    dueAt: isNewlyStarted && dueAt < retryAt ? Math.max(now, dueAt) : retryAt,
  }
}

/** The URLs to call, in order, until one of them answers. */
export function queryUrls({ announcement, state, elsewhere }: CameraEntry): string[] {
  const urls =
    state.kind === 'candidate'
      ? announcement.urls
      : // Only the URLs that the camera still announces.
        [...state.preferred.filter((url) => announcement.urls.includes(url)), state.url]
  return [...new Set([...urls, ...(elsewhere?.urls ?? [])])].slice(0, MAX_URLS)
}

/** The interface that leads to the link-local address of a URL, by the announcement of the URL. */
export function zoneOf(entry: CameraEntry, url: string): string | undefined {
  return announcementsOf(entry).find(({ urls, zone }) => urls.includes(url) && zone !== undefined)
    ?.zone
}

function announcementsOf({ announcement, elsewhere }: CameraEntry): CameraAnnouncement[] {
  return elsewhere === undefined ? [announcement] : [announcement, elsewhere]
}

/** Whether a query is not limited in number: the device is new, or has said Hello. */
export function isUrgent({ state, failures, isNewlyStarted }: CameraEntry): boolean {
  return state.kind === 'candidate' && (failures === 0 || isNewlyStarted)
}

/**
 * Whether a camera took the place of another camera, by answering at its URL: the other has been
 * silent since the round before the camera was heard first. A camera that gets a new UUID at each
 * start does that. Several cameras behind one URL, as a bridge announces them, are heard in one
 * round, in any order.
 */
export function isDisplacedBy(other: CameraEntry, camera: CameraEntry): boolean {
  return (
    other.id !== camera.id &&
    other.state.kind === 'camera' &&
    camera.state.kind === 'camera' &&
    other.state.url === camera.state.url &&
    other.silentRounds > camera.rounds &&
    isOwnAddress(other, camera.announcement.source)
  )
}

/** Whether the sender of an announcement is at an address that the announcement names. */
function isFromItself({ urls, source }: CameraAnnouncement): boolean {
  const addresses = urls.map(addressOfUrl)
  return addresses.includes(undefined) || addresses.includes(plainAddress(source))
}

/**
 * Whether an address is that of the device; for a URL with a host name, the address that announced
 * it.
 */
export function isOwnAddress({ announcement, state }: CameraEntry, source: string): boolean {
  const address = state.kind === 'camera' ? state.address : addressOfUrl(announcement.urls[0] ?? '')
  return address === undefined ? source === announcement.source : address === plainAddress(source)
}

/**
 * Whether the facts from a URL belong to the device. They are compared if another camera may have
 * the address now: at the camera's own URL while it is announced elsewhere, and at a preferred URL
 * that has not answered before.
 */
export function isSameCamera(
  { state, elsewhere }: CameraEntry,
  url: string,
  facts: CameraFacts,
): boolean {
  if (state.kind === 'candidate') return true
  const isDoubtful = url === state.url ? elsewhere !== undefined : state.preferred.includes(url)
  const differs = (before: string | undefined, after: string | undefined) =>
    before !== undefined && after !== undefined && before !== after
  return !(
    isDoubtful &&
    (differs(state.facts.serialNumber, facts.serialNumber) ||
      differs(state.facts.macAddress, facts.macAddress))
  )
}

function soonestQuery({ answeredAt }: CameraState, now: number): number {
  return Math.max(now, answeredAt + MIN_REFRESH_MS)
}
