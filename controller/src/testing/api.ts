import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { ApiClient } from '@akrijs/kube'
import { silentLogger, systemClock } from '@akrijs/runtime'
import { ClusterState } from '../cluster-state.js'

const KINDS = ['configurations', 'instances', 'pods', 'jobs', 'services', 'deployments', 'nodes']

interface Stored {
  readonly metadata: object
  readonly [field: string]: unknown
}

export interface TestRequest {
  readonly method: string
  readonly path: string
  readonly body: unknown
  /** Who applies it; undefined for any other request. */
  readonly manager: string | undefined
}

/** Objects behind HTTP, which are listed, watched and written by the rules of an API server, as far as the tests of writers go. */
export class TestApi {
  readonly objects = new Map<string, Stored>()
  readonly requests: TestRequest[] = []
  /** Runs before an answer: what happens in the meantime. */
  meanwhile: (request: TestRequest) => void = () => {}
  /** What is answered instead of what would be; undefined where it is as usual. */
  refusal: (
    request: TestRequest,
  ) => { readonly status: number; readonly message: string } | undefined = () => undefined
  /** Answers every request, in place of the objects. */
  answer: http.RequestListener | undefined
  /** Whether watches report no further change. */
  isSilent = false
  readonly #watches = new Map<string, Set<http.ServerResponse>>()
  readonly #server = http.createServer((request, response) => void this.#handle(request, response))
  readonly #events: {
    readonly collection: string
    readonly version: number
    readonly event: object
  }[] = []
  #version = 100
  #close = async () => {}
  #onWatched = () => {}
  readonly #watched = new Promise<void>((resolve) => {
    this.#onWatched = resolve
  })

  /** @returns what a controller sees of it, once it has seen everything, and how it writes */
  async start(): Promise<{ client: ApiClient; state: ClusterState }> {
    this.#server.listen(0, '127.0.0.1')
    await once(this.#server, 'listening')
    const server = new URL(`http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`)
    const client = new ApiClient({
      access: { server, credentials: async () => ({}) },
      clock: systemClock,
      userAgent: 'test',
    })
    const state = new ClusterState({ client, clock: systemClock, log: silentLogger })
    state.start()
    await state.synced
    await this.#watched
    this.requests.length = 0
    this.#close = async () => {
      await state.close()
      client.close()
    }
    return { client, state }
  }

  async stop(): Promise<void> {
    await this.#close()
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, 'close')
  }

  put(path: string, object: Stored): Stored {
    const resourceVersion = String(++this.#version)
    const metadata = {
      uid: `uid-${resourceVersion}`,
      creationTimestamp: '2026-01-01T00:00:00Z',
      ...object.metadata,
      resourceVersion,
    }
    const stored = { ...object, metadata }
    const type = this.objects.has(path) ? 'MODIFIED' : 'ADDED'
    this.objects.set(path, stored)
    this.#tell(path, { type, object: stored })
    return stored
  }

  remove(path: string): void {
    const found = this.objects.get(path)
    if (found === undefined) return
    this.objects.delete(path)
    const object = {
      ...found,
      metadata: { ...found.metadata, resourceVersion: String(++this.#version) },
    }
    this.#tell(path, { type: 'DELETED', object })
  }

  #tell(path: string, event: { readonly type: string; readonly object: Stored }): void {
    this.#events.push({ collection: collectionOf(path), version: this.#version, event })
    if (this.isSilent) return
    for (const watch of this.#watches.get(collectionOf(path)) ?? [])
      watch.write(`${JSON.stringify(event)}\n`)
  }

  /** The bodies of the requests of a method. */
  sent(method: string): unknown[] {
    return this.requests.filter((request) => request.method === method).map(({ body }) => body)
  }

  /** Ends all connections. */
  cut(): void {
    this.#server.closeAllConnections()
  }

  async #handle(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    if (this.answer !== undefined) return this.answer(request, response)
    let text = ''
    for await (const chunk of request) text += String(chunk)
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://x')
    if (searchParams.has('watch')) {
      this.#watches.set(pathname, (this.#watches.get(pathname) ?? new Set()).add(response))
      response.writeHead(200).flushHeaders()
      for (const { collection, version, event } of this.#events)
        if (collection === pathname && version > Number(searchParams.get('resourceVersion')))
          response.write(`${JSON.stringify(event)}\n`)
      if (this.#watches.size === KINDS.length) this.#onWatched()
      return
    }
    const body: unknown = text === '' ? undefined : JSON.parse(text)
    const manager = searchParams.get('fieldManager') ?? undefined
    const seen = { method: request.method ?? '', path: pathname, body, manager }
    this.requests.push(seen)
    this.meanwhile(seen)
    const refusal = this.refusal(seen)
    const [status, answer] = refusal === undefined ? this.#do(seen) : [refusal.status, refusal]
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(answer))
  }

  #do({ method, path, body, manager }: TestRequest): [number, unknown] {
    const sent = body as Stored & { readonly metadata: { readonly name?: string } }
    const target =
      method === 'POST' ? `${path}/${sent.metadata.name}` : path.replace(/\/status$/, '')
    const found = this.objects.get(target)
    if (method === 'POST')
      return found === undefined
        ? [201, this.put(target, sent)]
        : [409, { message: 'AlreadyExists' }]
    if (manager !== undefined) return [200, this.#apply(target, sent, manager)]
    if (found === undefined) {
      const items = [...this.objects]
        .filter(([key]) => collectionOf(key) === path)
        .map(([, object]) => object)
      return KINDS.some((kind) => path.endsWith(`/${kind}`))
        ? [200, { metadata: { resourceVersion: String(this.#version) }, items }]
        : [404, { message: 'NotFound' }]
    }
    if (method === 'DELETE') this.remove(target)
    return [
      200,
      method === 'PATCH'
        ? this.put(target, { ...found, ...sent, metadata: { ...found.metadata, ...sent.metadata } })
        : found,
    ]
  }

  /** What is applied is all the manager's. */
  #apply(path: string, sent: Stored, manager: string): Stored {
    const managedFields = [
      { manager, operation: 'Apply', fieldsV1: { 'f:metadata': {}, 'f:spec': {} } },
    ]
    const found = this.objects.get(path)
    return this.put(path, {
      ...found,
      ...sent,
      metadata: { ...found?.metadata, ...sent.metadata, managedFields },
    })
  }
}

/** Where all objects of the kind are. */
function collectionOf(path: string): string {
  return path.replace(/\/namespaces\/[^/]+/, '').replace(/\/[^/]+$/, '')
}
