import http from 'node:http'
import type { ApiObject } from '../reflector.js'

export interface Thing extends ApiObject {
  readonly value: unknown
}

interface Event {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'
  readonly object: Thing
}

export type Answer = (request: URLSearchParams, response: http.ServerResponse) => void

/** A collection of an API server, with pages and watches that begin where they are told to. */
export class Collection {
  readonly objects = new Map<string, Thing>()
  readonly history: Event[] = []
  readonly watches = new Set<http.ServerResponse>()
  readonly requests: URLSearchParams[] = []
  readonly server = http.createServer((request, response) => this.#answer(request, response))
  /** What is answered instead; taken from the front. */
  readonly lists: Answer[] = []
  readonly watched: Answer[] = []
  #version = 100
  readonly #snapshots: Thing[][] = []

  get version(): string {
    return String(this.#version)
  }

  count(what: 'list' | 'watch'): number {
    return this.requests.filter((query) => query.has('watch') === (what === 'watch')).length
  }

  put(name: string, value: unknown = 0): Thing {
    const type = this.objects.has(name) ? 'MODIFIED' : 'ADDED'
    const object = {
      metadata: { namespace: 'n', name, resourceVersion: String(++this.#version) },
      value,
    }
    this.objects.set(name, object)
    this.#tell({ type, object })
    return object
  }

  remove(name: string): void {
    const known = this.objects.get(name)
    if (known === undefined) return
    this.objects.delete(name)
    this.#tell({
      type: 'DELETED',
      object: {
        ...known,
        metadata: { ...known.metadata, resourceVersion: String(++this.#version) },
      },
    })
  }

  send(line: unknown): void {
    for (const watch of this.watches)
      watch.write(`${typeof line === 'string' ? line : JSON.stringify(line)}\n`)
  }

  endWatches(): void {
    for (const watch of this.watches) watch.end()
  }

  #tell(event: Event): void {
    this.history.push(event)
    this.send(event)
  }

  #answer({ url = '' }: http.IncomingMessage, response: http.ServerResponse): void {
    const query = new URL(url, 'http://x').searchParams
    this.requests.push(query)
    if (query.has('watch')) (this.watched.shift() ?? this.#watch)(query, response)
    else (this.lists.shift() ?? this.#list)(query, response)
  }

  readonly #list: Answer = (query, response) => {
    const [snapshot = this.#snapshots.push([...this.objects.values()]) - 1, from = 0] = (
      query.get('continue') ?? ''
    )
      .split(':')
      .filter((part) => part !== '')
      .map(Number)
    const all = this.#snapshots[snapshot] ?? []
    const end = from + Number(query.get('limit'))
    const next = end < all.length ? `${snapshot}:${end}` : undefined
    response.end(
      JSON.stringify({
        metadata: { resourceVersion: this.version, continue: next },
        items: all.slice(from, end),
      }),
    )
  }

  readonly #watch: Answer = (query, response) => {
    response.flushHeaders()
    const since = Number(query.get('resourceVersion'))
    for (const event of this.history)
      if (Number(event.object.metadata.resourceVersion) > since)
        response.write(`${JSON.stringify(event)}\n`)
    this.watches.add(response)
    response.on('close', () => this.watches.delete(response))
  }
}

export const refuse = (status: number, reason: string): Answer => {
  return (_query, response) =>
    response.writeHead(status).end(JSON.stringify({ reason, message: 'no' }))
}
