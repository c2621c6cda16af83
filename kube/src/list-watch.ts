import { Backoff, type Clock, isRecord } from '@akrijs/runtime'
import type { ApiClient, ApiRequest } from './api-client.js'
import { Deadline } from './deadline.js'
import { AnswerTooLongError, ApiError, ApiUnreachableError, StoreRestoredError } from './errors.js'
import { ANY_VERSION, isOlder, keyIn, metadataIn, versionIn } from './object-cache.js'
import type { ObjectKey } from './objects.js'

export interface ListWatchOptions {
  readonly client: ApiClient
  readonly clock: Clock
  /** The path of the collection, such as `/apis/akri.sh/v0/instances`. */
  readonly path: string
  readonly query?: Selectors
  /**
   * The part of an object that matters. Objects wait in this form until their list is complete; its
   * metadata must have namespace, name and resourceVersion.
   * @default the whole object
   */
  reduce?(object: unknown): unknown
  /**
   * Listing or watching failed, and is tried again. A list that is older than an earlier one was
   * taken over: {@link StoreRestoredError}.
   */
  onError(error: unknown, retryInMs: number): void
}

/** The objects of a collection that a list and its watch show. */
export interface Selectors {
  readonly labelSelector?: string
  readonly fieldSelector?: string
}

export interface ListWatchTiming {
  /** Of [0, 1). @default Math.random */
  readonly random?: () => number
  /** Objects on a page of a list. @default 500 */
  readonly pageSize?: number
}

type ListWatchEvent =
  /** A list is requested now. */
  | { readonly kind: 'listing'; readonly isNewest: boolean }
  | ({ readonly kind: 'listed' } & List)
  | ({ readonly kind: 'event' } & WatchEvent)

interface List {
  readonly objects: readonly unknown[]
  readonly version: string
}

interface WatchEvent {
  /** `ADDED`, `MODIFIED`, `DELETED` or `BOOKMARK`. */
  readonly type: string
  readonly object: unknown
}

export const LIST_WATCH_TIMING: Required<ListWatchTiming> = {
  random: Math.random,
  pageSize: 500,
}

/**
 * How long the server should keep a watch, in seconds; at random up to half longer, so that watches
 * that began together do not end together.
 */
const WATCH_SECONDS = 1800
/**
 * A watch without a line for so long is opened again, in milliseconds: the connection may be dead.
 * Most servers send a bookmark each minute, but not all of them do if nothing changes.
 */
const SILENCE_MS = 90_000

const BACKOFF = { initialMs: 500, ceilingMs: 30_000 }
/** A watch that lasted so long has worked, in milliseconds. */
const STABLE_MS = 5000
/** The HTTP status of a version that the server has forgotten. */
const EXPIRED = 410
/** The HTTP status of a version that the server has not reached. */
const TOO_LARGE = 504
/** The HTTP status of a server whose watches cannot begin with the objects. */
const NO_STREAMS = [400, 422]
/** The HTTP status of a collection that the client may not watch, or only not yet. */
const FORBIDDEN = 403
/** A page that is too long for the client is requested again with one of so many parts of it. */
const PAGE_PARTS = 8
/** A stream of objects without a line for so long has no end, in milliseconds. */
const STREAM_SILENCE_MS = 10_000
/** The pause without streams after one that was refused or had no end, in milliseconds. */
const STREAM_PAUSE_MS = 600_000
/** Annotation of the bookmark after the last object of the list. */
const END_OF_LIST = 'k8s.io/initial-events-end'

type Query = ApiRequest['query']

/** The clients of servers that refused a stream: each client asks once, not once a collection. */
const withoutStreams = new WeakSet<ApiClient>()

/**
 * Lists a collection, then watches it, until the signal is aborted. Failures are reported and
 * retried. The generator lists again when the server has forgotten the version from which the watch
 * would continue.
 *
 * A list comes from the memory of the server: in a stream that goes on as the watch, where the
 * server has that (Kubernetes 1.34 by default). If the memory is too old, a list in pages follows
 * from the store of the server.
 *
 * After a failure or a silence, the watch continues only if the server has reached its version. A
 * server whose store was restored from a backup accepts a later version, and shows no change until
 * it gets there.
 * @param notOlderThan the least version of a list: `0` for any; undefined for the newest
 * @param onContact called when the server answers, also without an event
 */
export async function* listWatch(
  options: ListWatchOptions & Required<ListWatchTiming>,
  signal: AbortSignal,
  notOlderThan: () => string | undefined,
  onContact: () => void,
): AsyncGenerator<ListWatchEvent, void, void> {
  const { client, clock, path, random, onError } = options
  const waits = new Backoff({ ...BACKOFF, random })
  let version: string | undefined
  /** The version of the last list or watch, also if the watch cannot continue there. */
  let reached: string | undefined
  /** Whether the watch has failed or was silent, and no answer has shown the version since. */
  let isDoubtful = false
  let isMemoryTooOld = false
  /** Monotonic time from which a list may be a stream again. */
  let streamsAt = Number.NEGATIVE_INFINITY
  while (!signal.aborted) {
    let failure: unknown
    let watchedAt = Number.POSITIVE_INFINITY
    let since: string | undefined
    let stream: ObjectStream | undefined
    const listed = (list: List): ListWatchEvent => {
      if (isOlder(list.version, reached))
        onError(new StoreRestoredError(restoredMessage(path, list.version, reached)), 0)
      version = reached = list.version
      isDoubtful = false
      return { kind: 'listed', ...list }
    }
    try {
      if (version !== undefined && isDoubtful) {
        if (isOlder(await versionOfServer(options, signal), version)) {
          version = undefined
          isMemoryTooOld = true
        }
        onContact()
        isDoubtful = false
      }
      if (version === undefined) {
        since = isMemoryTooOld ? undefined : notOlderThan()
        yield { kind: 'listing', isNewest: since === undefined }
        const mayStream = !withoutStreams.has(client) && clock.monotonicMs() >= streamsAt
        if (since !== undefined && mayStream) stream = new ObjectStream(since, options)
        else {
          const list = await listAll(options, since, signal, onContact)
          if (signal.aborted) return
          yield listed(list)
          isMemoryTooOld = false
        }
      }
      // A list that takes long and then fails is no success: the server may have too much to do.
      if (stream === undefined) watchedAt = clock.monotonicMs()
      const start = stream?.start ?? { resourceVersion: version }
      let heardAt = clock.monotonicMs()
      const silenceMs = () => (stream === undefined ? SILENCE_MS : STREAM_SILENCE_MS)
      for await (const event of watch(options, start, silenceMs, signal, onContact)) {
        const { type, object } = event
        heardAt = clock.monotonicMs()
        if (type === 'ERROR') {
          // Whatever the error is, the events since are lost: 410 and "too old" come here too.
          version = undefined
          isMemoryTooOld = stream !== undefined
          throw new ApiUnreachableError(`watch ${path}: ${JSON.stringify(object)?.slice(0, 300)}`)
        }
        if (stream === undefined) {
          version = reached = versionIn(object) ?? version
          yield { kind: 'event', type, object }
          continue
        }
        const list = stream.add(event)
        if (list === undefined) continue
        yield listed(list)
        stream = undefined
        watchedAt = clock.monotonicMs()
      }
      isDoubtful = clock.monotonicMs() - heardAt >= SILENCE_MS
      if (stream !== undefined && !signal.aborted) {
        // The server, or a proxy, did not show where the objects end. It may be shutting down.
        streamsAt = clock.monotonicMs() + STREAM_PAUSE_MS
        continue
      }
    } catch (error) {
      const status = stream !== undefined && ApiError.is(error) ? error.status : 0
      if (NO_STREAMS.includes(status)) withoutStreams.add(client)
      if (status === FORBIDDEN) streamsAt = clock.monotonicMs() + STREAM_PAUSE_MS
      if (status === FORBIDDEN || NO_STREAMS.includes(status)) continue
      if (since !== undefined && isTooOld(error)) isMemoryTooOld = true
      if (ApiError.is(error, EXPIRED)) version = undefined
      isDoubtful = true
      failure = error
    }
    if (signal.aborted) return
    const isStable = clock.monotonicMs() - watchedAt >= STABLE_MS
    if (isStable) waits.reset()
    if (failure === undefined && isStable) continue
    // A server that ends each watch at once must not be asked in a hot loop either.
    const retryInMs = waits.next()
    if (failure !== undefined) onError(failure, retryInMs)
    await clock.sleep(retryInMs, signal).catch(() => undefined)
  }
}

/** Whether only the store of the server, in pages, can give what its memory was asked for. */
function isTooOld(error: unknown): boolean {
  return (
    ApiError.is(error, EXPIRED) ||
    ApiError.is(error, TOO_LARGE) ||
    error instanceof AnswerTooLongError
  )
}

/** A list that comes as the first events of a watch. */
class ObjectStream {
  readonly start: Query
  readonly #objects = new Map<ObjectKey, unknown>()
  readonly #reduce: ListWatchOptions['reduce']

  constructor(notOlderThan: string, { reduce }: Pick<ListWatchOptions, 'reduce'>) {
    this.#reduce = reduce
    this.start = {
      resourceVersion: notOlderThan,
      resourceVersionMatch: 'NotOlderThan',
      sendInitialEvents: true,
    }
  }

  /** @returns the list, if this event is its end */
  add({ type, object }: WatchEvent): List | undefined {
    if (type === 'BOOKMARK') {
      const { annotations } = metadataIn(object)
      const version = versionIn(object)
      const isEnd = isRecord(annotations) && annotations[END_OF_LIST] === 'true'
      return isEnd && version !== undefined
        ? { objects: [...this.#objects.values()], version }
        : undefined
    }
    const key = keyIn(object)
    if (key === undefined) return undefined
    if (type === 'DELETED') this.#objects.delete(key)
    else this.#objects.set(key, this.#reduce === undefined ? object : this.#reduce(object))
    return undefined
  }
}

function restoredMessage(path: string, version: string, reached: string | undefined): string {
  return (
    `list ${path}: the API server has version ${version}, and had version ${reached} before. ` +
    'Its store was restored from a backup; all objects are listed again'
  )
}

/**
 * The present version of the server, from the shortest list. A selector would make the server
 * search for an object; only an object's name is one that some accounts must give.
 */
async function versionOfServer(
  { client, path, query = {} }: ListWatchOptions,
  signal: AbortSignal,
): Promise<string | undefined> {
  const hasName = query.fieldSelector?.startsWith('metadata.name=') === true
  const options = { client, path, query: hasName ? query : {}, pageSize: 1 }
  for await (const { version } of listPages(options, undefined, signal)) return version
  return undefined
}

interface PageOptions extends Pick<ListWatchOptions, 'client' | 'path' | 'query'> {
  readonly pageSize: number
}

/** Lists a collection as the server remembers it. */
export async function listObjects(
  options: Pick<ListWatchOptions, 'client' | 'path' | 'query'>,
  signal: AbortSignal,
): Promise<List> {
  const { pageSize } = LIST_WATCH_TIMING
  const list = (since: string | undefined) =>
    listAll({ ...options, pageSize }, since, signal, () => {})
  try {
    return await list(ANY_VERSION)
  } catch (error) {
    if (!isTooOld(error)) throw error
    return list(undefined)
  }
}

/** @param since the least version; undefined for the newest */
async function listAll(
  options: PageOptions & Pick<ListWatchOptions, 'reduce'>,
  since: string | undefined,
  signal: AbortSignal,
  onContact: () => void,
): Promise<List> {
  const objects: unknown[] = []
  let version = ''
  for await (const page of listPages(options, since, signal)) {
    onContact()
    for (const object of page.objects)
      objects.push(options.reduce === undefined ? object : options.reduce(object))
    version = page.version
  }
  return { objects, version }
}

/**
 * Lists a collection page by page. A page that is too long for the client is requested again with
 * fewer objects: any user can write objects of 1.5 MB.
 * @param since the least version; undefined for the newest
 * @throws ApiError, ApiUnreachableError
 */
export async function* listPages(
  { client, path, query, pageSize }: PageOptions,
  since: string | undefined,
  signal: AbortSignal,
): AsyncGenerator<List, void, void> {
  let limit = pageSize
  for (let next: string | undefined; ; ) {
    const parameters = next === undefined ? firstPage(since, limit) : { limit, continue: next }
    let page: unknown
    try {
      page = await client.request({
        method: 'GET',
        path,
        query: { ...query, ...parameters },
        signal,
      })
    } catch (error) {
      // The memory of a server knows no pages.
      const isPage = since === undefined || next !== undefined
      if (isPage && limit > 1 && error instanceof AnswerTooLongError) {
        limit = Math.ceil(limit / PAGE_PARTS)
        continue
      }
      if (next === undefined || !ApiError.is(error, EXPIRED)) throw error
      // The next attempt begins with the first page.
      throw new ApiUnreachableError(
        `list ${path}: the collection changed too much during the list`,
        { cause: error },
      )
    }
    const { items, metadata } = isRecord(page) ? page : {}
    const { resourceVersion, continue: more } = isRecord(metadata) ? metadata : {}
    if (!Array.isArray(items) || typeof resourceVersion !== 'string')
      throw new ApiUnreachableError(`list ${path}: the answer is no list`)
    yield { objects: items, version: resourceVersion }
    if (typeof more !== 'string' || more === '') return
    next = more
  }
}

function firstPage(since: string | undefined, limit: number): Query {
  if (since === undefined) return { limit }
  // A server without such a memory answers in pages.
  if (since === ANY_VERSION) return { limit, resourceVersion: since }
  // With a limit, servers read from their store.
  return { resourceVersion: since, resourceVersionMatch: 'NotOlderThan' }
}

/**
 * @param start the versions to begin with
 * @param silenceMs the longest time without a line
 */
async function* watch(
  { client, path, query, random, clock }: ListWatchOptions & Required<ListWatchTiming>,
  start: Query,
  silenceMs: () => number,
  signal: AbortSignal,
  onContact: () => void,
): AsyncGenerator<WatchEvent, void, void> {
  const timeoutSeconds = Math.round(WATCH_SECONDS * (1 + random() / 2))
  let isOpen = false
  let heardAt = clock.monotonicMs()
  const silence = new Deadline(clock, () => heardAt + silenceMs(), signal)
  const request = {
    method: 'GET',
    path,
    query: { ...query, watch: true, allowWatchBookmarks: true, timeoutSeconds, ...start },
  } as const
  const onOpen = () => {
    isOpen = true
    onContact()
  }
  try {
    for await (const line of client.lines(request, silence.signal, onOpen)) {
      heardAt = clock.monotonicMs()
      onContact()
      yield eventIn(line, path)
    }
  } catch (error) {
    if (!silence.isOver) throw error
    // An open watch may be silent because nothing changes. The next watch tells whether the server
    // is there.
    if (isOpen) return
    if (ApiError.is(error)) throw error
    throw new ApiUnreachableError(`watch ${path}: nothing came for ${silenceMs()} ms`)
  } finally {
    silence.end()
  }
}

function eventIn(line: string, path: string): WatchEvent {
  try {
    const event: unknown = JSON.parse(line)
    if (isRecord(event) && typeof event.type === 'string')
      return { type: event.type, object: event.object }
  } catch {
    // Reported below.
  }
  throw new ApiUnreachableError(`watch ${path}: a line is no event`)
}
