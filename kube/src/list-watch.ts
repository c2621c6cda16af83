import { Backoff, type Clock, isRecord } from '@akrijs/runtime'
import type { ApiClient } from './api-client.js'
import { Deadline } from './deadline.js'
import { ApiError, ApiUnreachableError } from './errors.js'
import { versionIn } from './object-cache.js'

export interface ListWatchOptions {
  readonly client: ApiClient
  readonly clock: Clock
  /** The path of the collection, such as `/apis/akri.sh/v0/instances`. */
  readonly path: string
  readonly query?: { readonly labelSelector?: string; readonly fieldSelector?: string }
  /** Listing or watching failed, and is tried again. */
  onError(error: unknown, retryInMs: number): void
}

export interface ListWatchTiming {
  /** Of [0, 1). @default Math.random */
  readonly random?: () => number
  /** Objects on a page of a list. @default 500 */
  readonly pageSize?: number
  /**
   * How long the server should keep a watch, in seconds; at random up to half longer.
   * @default 200
   */
  readonly watchSeconds?: number
  /**
   * A watch without a line for so long is opened again, in milliseconds: the connection may be
   * dead. Most servers send a bookmark each minute, but not all of them do if nothing changes.
   * @default 90000
   */
  readonly silenceMs?: number
}

type ListWatchEvent =
  /** A list is requested now. */
  | { readonly kind: 'listing' }
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
  watchSeconds: 200,
  silenceMs: 90_000,
}

const BACKOFF = { initialMs: 500, ceilingMs: 30_000 }
/** A watch that lasted so long has worked, in milliseconds. */
const STABLE_MS = 5000
/** The HTTP status of a version that the server has forgotten. */
const EXPIRED = 410

/**
 * Lists a collection in pages, then watches it, until the signal is aborted. Failures are
 * reported and retried. The generator lists again when the server has forgotten the version from
 * which the watch would continue.
 * @param onContact called when the server answers, also without an event
 */
export async function* listWatch(
  options: ListWatchOptions & Required<ListWatchTiming>,
  signal: AbortSignal,
  onContact: () => void,
): AsyncGenerator<ListWatchEvent, void, void> {
  const { clock, path, random, onError } = options
  const waits = new Backoff({ ...BACKOFF, random })
  let version: string | undefined
  while (!signal.aborted) {
    let failure: unknown
    let watchedAt = Number.POSITIVE_INFINITY
    try {
      if (version === undefined) {
        yield { kind: 'listing' }
        const list = await listAll(options, signal, onContact)
        if (signal.aborted) return
        yield { kind: 'listed', ...list }
        version = list.version
      }
      // A list that takes long and then fails is no success: the server may have too much to do.
      watchedAt = clock.monotonicMs()
      for await (const { type, object } of watch(options, version, signal, onContact)) {
        if (type === 'ERROR') {
          // Whatever the error is, the events since are lost: 410 and "too old" come here too.
          version = undefined
          throw new ApiUnreachableError(`watch ${path}: ${JSON.stringify(object)?.slice(0, 300)}`)
        }
        version = versionIn(object) ?? version
        yield { kind: 'event', type, object }
      }
    } catch (error) {
      if (ApiError.is(error, EXPIRED)) version = undefined
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

async function listAll(
  { client, path, query, pageSize }: ListWatchOptions & Required<ListWatchTiming>,
  signal: AbortSignal,
  onContact: () => void,
): Promise<List> {
  const objects: unknown[] = []
  for (let next: string | undefined; ; ) {
    const parameters = { ...query, limit: pageSize, continue: next }
    const page = await client
      .request({ method: 'GET', path, query: parameters, signal })
      .catch((error: unknown) => {
        if (next === undefined || !ApiError.is(error, EXPIRED)) throw error
        // The next attempt begins with the first page.
        throw new ApiUnreachableError(
          `list ${path}: the collection changed too much during the list`,
          {
            cause: error,
          },
        )
      })
    const { items, metadata } = isRecord(page) ? page : {}
    const { resourceVersion, continue: more } = isRecord(metadata) ? metadata : {}
    if (!Array.isArray(items) || typeof resourceVersion !== 'string')
      throw new ApiUnreachableError(`list ${path}: the answer is no list`)
    onContact()
    objects.push(...items)
    if (typeof more !== 'string' || more === '') return { objects, version: resourceVersion }
    next = more
  }
}

async function* watch(
  options: ListWatchOptions & Required<ListWatchTiming>,
  resourceVersion: string,
  signal: AbortSignal,
  onContact: () => void,
): AsyncGenerator<WatchEvent, void, void> {
  const { client, path, query, random, watchSeconds, silenceMs, clock } = options
  const timeoutSeconds = Math.round(watchSeconds * (1 + random() / 2))
  let isOpen = false
  let heardAt = clock.monotonicMs()
  const silence = new Deadline(clock, () => heardAt + silenceMs, signal)
  const request = {
    method: 'GET',
    path,
    query: { ...query, watch: true, allowWatchBookmarks: true, timeoutSeconds, resourceVersion },
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
    if (!isOpen) throw new ApiUnreachableError(`watch ${path}: nothing came for ${silenceMs} ms`)
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
