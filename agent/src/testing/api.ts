import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { ApiClient } from '@akrijs/kube'
import type { Clock } from '@akrijs/runtime'

/** What an object needs to be told from others. Fields may be selected by, where their names stand here. */
interface TestObject {
  readonly metadata: {
    readonly namespace: string
    readonly name: string
    readonly [more: string]: unknown
  }
  readonly spec?: Readonly<Record<string, unknown>>
  readonly [more: string]: unknown
}

interface Change {
  readonly version: number
  readonly path: string
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'
  readonly object: TestObject
}

/** For tests of what follows objects: an API server that has them in this process, and watches that last until they are cut. */
export class TestApi {
  readonly client: ApiClient
  /** What every request is answered with; undefined where the server is well. */
  refuses: number | undefined
  readonly #server: http.Server
  readonly #objects = new Map<string, { readonly path: string; readonly object: TestObject }>()
  readonly #history: Change[] = []
  readonly #watches = new Map<http.ServerResponse, URL>()
  #version = 100

  private constructor(server: http.Server, clock: Clock) {
    this.#server = server
    const { port } = server.address() as AddressInfo
    const access = { server: new URL(`http://127.0.0.1:${port}`), credentials: async () => ({}) }
    this.client = new ApiClient({ access, clock, userAgent: 'test' })
    server.on('request', ({ url = '' }, response) =>
      this.#answer(new URL(url, access.server), response),
    )
  }

  static async open(clock: Clock): Promise<TestApi> {
    const server = http.createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    return new TestApi(server, clock)
  }

  async close(): Promise<void> {
    this.client.close()
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  /** The objects that are watched, as the last parts of the paths and what selects among them. */
  get watched(): string[] {
    return Array.from(this.#watches.values(), ({ pathname, searchParams }) =>
      [pathname.slice(pathname.lastIndexOf('/') + 1), searchParams.get('fieldSelector')].join(' '),
    ).sort()
  }

  /** Makes or changes an object. @param path of all that can be listed with it */
  put(path: string, object: TestObject): void {
    const key = keyOf(path, object)
    this.#change(path, this.#objects.has(key) ? 'MODIFIED' : 'ADDED', object)
  }

  remove(path: string, { metadata }: TestObject): void {
    const known = this.#objects.get(keyOf(path, { metadata }))
    if (known !== undefined) this.#change(path, 'DELETED', known.object)
  }

  /** Cuts off all who watch. */
  cut(): void {
    for (const watch of this.#watches.keys()) watch.destroy()
  }

  #change(path: string, type: Change['type'], { metadata, ...rest }: TestObject): void {
    const version = ++this.#version
    const object = { ...rest, metadata: { ...metadata, resourceVersion: String(version) } }
    if (type === 'DELETED') this.#objects.delete(keyOf(path, object))
    else this.#objects.set(keyOf(path, object), { path, object })
    const change = { version, path, type, object }
    this.#history.push(change)
    for (const [response, url] of this.#watches) tell(response, url, change)
  }

  #answer(url: URL, response: http.ServerResponse): void {
    if (this.refuses !== undefined) {
      response
        .writeHead(this.refuses)
        .end(JSON.stringify({ reason: 'InternalError', message: 'no' }))
    } else if (url.searchParams.has('watch')) {
      response.flushHeaders()
      this.#watches.set(response, url)
      response.on('close', () => this.#watches.delete(response))
      const since = Number(url.searchParams.get('resourceVersion'))
      for (const change of this.#history) if (change.version > since) tell(response, url, change)
    } else {
      const items = [...this.#objects.values()].flatMap(({ path, object }) =>
        isMeant(url, path, object) ? object : [],
      )
      response.end(JSON.stringify({ metadata: { resourceVersion: String(this.#version) }, items }))
    }
  }
}

function tell(response: http.ServerResponse, url: URL, { path, type, object }: Change): void {
  if (isMeant(url, path, object)) response.write(`${JSON.stringify({ type, object })}\n`)
}

function isMeant(url: URL, path: string, { metadata, spec }: TestObject): boolean {
  const [field = '', value] = (url.searchParams.get('fieldSelector') ?? '').split('=')
  const fields: Record<string, unknown> = {
    'metadata.name': metadata.name,
    'spec.nodeName': spec?.nodeName,
  }
  return url.pathname === path && fields[field] === value
}

function keyOf(path: string, { metadata }: TestObject): string {
  return `${path}/${metadata.namespace}/${metadata.name}`
}
