import { ApiClient, ApiError, type ApiRequest } from '@akrijs/kube'
import type { Clock } from '@akrijs/runtime'
import { ObjectStore, type StoredObject } from '../../../kube/src/testing/object-store.js'

/** What the clients of one role have asked. */
export interface ServerCounts {
  readonly requests: Record<string, number>
  refused: number
  events: number
  /** The bodies of requests, answers and events. */
  bytes: number
}

interface Watch {
  readonly selector: string
  /** The uids of the objects that it shows. */
  readonly shown: Set<string>
  readonly counts: ServerCounts
  readonly onLine: (line: string) => void
}

/** How long a request, its answer or an event is on its way, in milliseconds. */
const LATENCY_MS = 4
const BOOKMARK_MS = 60_000
const REFUSALS = [409, 422, 429]
const VERBS = { GET: 'get', POST: 'create', PUT: 'update', PATCH: 'patch', DELETE: 'delete' }

/** An API server in this process that counts. It has the rules of the server of the tests. */
export class CountedServer {
  readonly store = new ObjectStore()
  readonly clock: Clock
  readonly #objects = new Map<string, Map<string, StoredObject>>()
  readonly #watches = new Map<string, Set<Watch>>()

  constructor(clock: Clock) {
    this.clock = clock
  }

  objects(kind: string): ReadonlyMap<string, StoredObject> {
    return this.#kind(kind)
  }

  client(counts: ServerCounts): ApiClient {
    return new CountedClient(this, counts)
  }

  async sendBookmarks(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.clock.sleep(BOOKMARK_MS, signal).catch(() => undefined)
      const metadata = { resourceVersion: this.store.version }
      const line = JSON.stringify({ type: 'BOOKMARK', object: { metadata } })
      for (const watches of this.#watches.values()) for (const { onLine } of watches) onLine(line)
    }
  }

  /** @throws ApiError */
  handle({ method, path, query = {}, body, patch }: ApiRequest): unknown {
    const kind = kindOf(path)
    const selector = String(query.labelSelector ?? '')
    if (method === 'GET' && kind === collectionOf(path)) {
      const all = [...this.#kind(kind).values()]
      const items = all.filter((object) => isSelected(object, selector))
      return { metadata: { resourceVersion: this.store.version }, items }
    }
    const search = new URLSearchParams()
    return this.store.handle({ method, path, query: search, body, patch, manager: 'simulation' })
  }

  /** @returns how to end the watch */
  watch({ path, query = {} }: ApiRequest, counts: ServerCounts, onLine: Watch['onLine']) {
    // As Kubernetes before 1.34, which cannot begin a watch with the objects.
    if (query.sendInitialEvents !== undefined)
      throw new ApiError(path, { status: 422, reason: 'Invalid', message: 'no such parameter' })
    const kind = collectionOf(path)
    const selector = String(query.labelSelector ?? '')
    const since = Number(query.resourceVersion)
    const watch: Watch = { selector, shown: new Set(), counts, onLine }
    for (const object of this.#kind(kind).values()) {
      if (!isSelected(object, selector)) continue
      watch.shown.add(object.metadata.uid)
      if (Number(object.metadata.resourceVersion) > since) this.#send(watch, 'ADDED', object)
    }
    const watches = this.#watches.get(kind) ?? new Set()
    this.#watches.set(kind, watches.add(watch))
    return () => watches.delete(watch)
  }

  /** The objects of a kind, which the first call begins to follow. */
  #kind(kind: string): Map<string, StoredObject> {
    const known = this.#objects.get(kind)
    if (known !== undefined) return known
    const objects = new Map<string, StoredObject>()
    this.#objects.set(kind, objects)
    const query = new URLSearchParams({ resourceVersion: '0' })
    this.store.watch({ path: kind, query }, ({ type, object }) => {
      if (!isStored(object)) return
      if (type === 'DELETED') objects.delete(object.metadata.uid)
      else objects.set(object.metadata.uid, object)
      this.#tell(kind, type === 'DELETED', object)
    })
    return objects
  }

  #tell(kind: string, isDeleted: boolean, object: StoredObject): void {
    const { uid } = object.metadata
    for (const watch of this.#watches.get(kind) ?? []) {
      const was = watch.shown.has(uid)
      const is = !isDeleted && isSelected(object, watch.selector)
      if (!was && !is) continue
      if (is) watch.shown.add(uid)
      else watch.shown.delete(uid)
      this.#send(watch, !is ? 'DELETED' : was ? 'MODIFIED' : 'ADDED', object)
    }
  }

  #send({ counts, onLine }: Watch, type: string, object: StoredObject): void {
    const line = `{"type":"${type}","object":${textOf(object)}}`
    counts.events++
    counts.bytes += line.length
    void this.clock.sleep(LATENCY_MS).then(() => onLine(line))
  }
}

class CountedClient extends ApiClient {
  readonly #server: CountedServer
  readonly #counts: ServerCounts

  constructor(server: CountedServer, counts: ServerCounts) {
    const access = { server: new URL('http://x'), credentials: async () => ({}) }
    const onWarning = () => undefined
    super({ access, clock: server.clock, userAgent: 'simulation', onWarning })
    this.#server = server
    this.#counts = counts
  }

  override async request(request: ApiRequest): Promise<unknown> {
    const { clock } = this.#server
    const body = request.body === undefined ? '' : JSON.stringify(request.body)
    await clock.sleep(LATENCY_MS)
    try {
      const sent = body === '' ? {} : { body: JSON.parse(body) }
      const answer = JSON.stringify(this.#server.handle({ ...request, ...sent }))
      this.#counts.bytes += answer.length
      return JSON.parse(answer)
    } catch (error) {
      if (ApiError.is(error) && REFUSALS.includes(error.status)) this.#counts.refused++
      throw error
    } finally {
      const verb = VERBS[request.method]
      this.#counts.requests[verb] = (this.#counts.requests[verb] ?? 0) + 1
      this.#counts.bytes += body.length
      await clock.sleep(LATENCY_MS)
    }
  }

  override async *lines(
    request: ApiRequest,
    signal: AbortSignal,
    onOpen?: () => void,
  ): AsyncGenerator<string, void, void> {
    const lines: string[] = []
    let wake = () => {}
    const onLine = (line: string) => {
      lines.push(line)
      wake()
    }
    const onAbort = () => wake()
    const end = this.#server.watch(request, this.#counts, onLine)
    signal.addEventListener('abort', onAbort)
    try {
      onOpen?.()
      while (!signal.aborted) {
        yield* lines.splice(0)
        if (lines.length > 0 || signal.aborted) continue
        await new Promise<void>((resolve) => {
          wake = resolve
        })
      }
    } finally {
      signal.removeEventListener('abort', onAbort)
      end()
    }
  }
}

/** A bookmark has a version only. */
function isStored(object: { readonly metadata: object }): object is StoredObject {
  return 'uid' in object.metadata
}

/** The text of an object is made once for all watches. */
const texts = new WeakMap<StoredObject, string>()

function textOf(object: StoredObject): string {
  const text = texts.get(object) ?? JSON.stringify(object)
  texts.set(object, text)
  return text
}

/** `/apis/akri.sh/v0/namespaces/default/instances/x` is of `/apis/akri.sh/v0/instances`. */
function kindOf(path: string): string {
  const [, base = '', plural = ''] =
    /^(\/api\/v1|\/apis\/[^/]+\/[^/]+)(?:\/namespaces\/[^/]+)?\/([^/]+)/.exec(path) ?? []
  return `${base}/${plural}`
}

/** The kind, if the path names all objects of a kind; else the path. */
function collectionOf(path: string): string {
  const plain = path.replace(/\/namespaces\/[^/]+(?=\/)/, '')
  return plain === kindOf(path) ? plain : path
}

/** `a=b,c=d` and `!a`. */
function isSelected(object: StoredObject, selector: string): boolean {
  const labels = (object.metadata.labels ?? {}) as Record<string, string>
  return (
    selector === '' ||
    selector.split(',').every((term) => {
      const [name = '', value] = term.split('=')
      return value === undefined ? labels[name.slice(1)] === undefined : labels[name] === value
    })
  )
}
