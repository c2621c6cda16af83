import { once } from 'node:events'
import http from 'node:http'
import https from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import type { Clock } from '@akrijs/runtime'
import { ApiClient, type ApiClientOptions, type PatchType } from '../api-client.js'
import type { Credentials } from '../cluster-credentials.js'
import { ApiError } from '../errors.js'
import { InProcessClient } from './in-process-client.js'
import { ObjectStore, type StoredObject, type StoreRequest } from './object-store.js'

export type Handler = (request: http.IncomingMessage, response: http.ServerResponse) => void

/** The fate of one request of an in-process client. */
export interface Fate {
  /** Milliseconds until the server executes it. Infinity: never. @default 0 */
  readonly arrivesIn?: number
  /** Milliseconds from then until the client has the answer. Infinity: never. @default 0 */
  readonly answeredIn?: number
  /** The server answers 500, and does nothing. */
  readonly refused?: boolean
}

export interface Refusal {
  readonly status: number
  /** @default 'Refused' */
  readonly reason?: string
  readonly message: string
}

interface Watch extends Pick<StoreRequest, 'path' | 'query'> {
  readonly response: http.ServerResponse
}

/**
 * An API server for tests, over HTTP or within the process. It executes every request by the
 * rules of {@link ObjectStore}, records it, and fails in the ways that a test asks for.
 */
export class FakeApiServer {
  readonly store = new ObjectStore()
  /** What came, the oldest first. */
  readonly requests: StoreRequest[] = []
  /** Watches that are open. */
  readonly watches = new Set<Watch>()
  /** Answers to paths, with their query, that are no objects. */
  readonly documents = new Map<string, unknown>()
  /** Connections that were made. */
  readonly sockets: Socket[] = []
  /** Answers every request, in place of the store. */
  answer: Handler | undefined
  /** Answer the next lists and watches, in place of the store. */
  readonly listAnswers: Handler[] = []
  readonly watchAnswers: Handler[] = []
  /** Runs before a request that is no watch is executed. */
  before: (request: StoreRequest) => unknown = () => {}
  /** Refuses requests, watches too. */
  refusal: (request: StoreRequest) => Refusal | undefined = () => undefined
  /** Whether watches hear of no further change. */
  isSilent = false
  /** A warning in each answer over HTTP. */
  warning: string | undefined
  /**
   * Whether a watch can begin with the objects. A server without that refuses such a watch, which
   * is not recorded.
   */
  streamsLists = false
  readonly #clock: Clock
  readonly #closes: (() => unknown)[] = []

  /** @param clock the clock of clients that are given no other one */
  constructor(clock: Clock) {
    this.#clock = clock
  }

  get objects(): ReadonlyMap<string, StoredObject> {
    return this.store.objects
  }

  put(...args: Parameters<ObjectStore['put']>): StoredObject {
    return this.store.put(...args)
  }

  remove(path: string): void {
    this.store.remove(path)
  }

  /** The bodies of the requests of a method. */
  sent(method: string): unknown[] {
    return this.requests.filter((request) => request.method === method).map(({ body }) => body)
  }

  async listen(server: http.Server = http.createServer(), host = '127.0.0.1'): Promise<URL> {
    server.on('request', (request, response) => void this.#answer(request, response))
    const isSecure = server instanceof https.Server
    server.on(isSecure ? 'secureConnection' : 'connection', (socket) => {
      this.sockets.push(socket)
    })
    server.listen(0, host)
    await once(server, 'listening')
    this.#closes.push(async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    })
    const { port } = server.address() as AddressInfo
    const shownHost = host.includes(':') ? `[${host}]` : host
    return new URL(`${isSecure ? 'https' : 'http'}://${shownHost}:${port}`)
  }

  connect(
    server: URL,
    options: Partial<ApiClientOptions> = {},
    credentials: () => Promise<Credentials> = async () => ({}),
  ): ApiClient {
    const access = { server, credentials }
    const client = new ApiClient({
      access,
      clock: this.#clock,
      userAgent: 'test',
      onWarning: () => undefined,
      ...options,
    })
    this.#closes.push(() => client.close())
    return client
  }

  /** A client over HTTP. */
  async open(): Promise<ApiClient> {
    return this.connect(await this.listen())
  }

  /** A client without a socket: nothing takes longer than the clock of the test says. */
  client(fate: (request: StoreRequest) => Fate = () => ({})): ApiClient {
    const serve = async <T>(request: StoreRequest, execute: () => Promise<T> | T): Promise<T> => {
      const { arrivesIn = 0, answeredIn = 0, refused = false } = fate(request)
      await this.#sleep(arrivesIn)
      try {
        if (refused) throw new ApiError('', { status: 500, reason: 'Refused', message: 'refused' })
        return await execute()
      } finally {
        await this.#sleep(answeredIn)
      }
    }
    return new InProcessClient(
      this.#clock,
      (request) => serve(request, async () => structuredClone(await this.#execute(request))),
      (request, onEvent) =>
        serve(request, () => {
          if (this.#isUnknownStream(request)) throw new ApiError('watch', NO_STREAMS)
          this.#record(request)
          return this.store.watch(request, (event) => {
            if (!this.isSilent) onEvent(structuredClone(event))
          })
        }),
    )
  }

  /** Resolves when so many watches are open. */
  async untilWatched(count: number): Promise<void> {
    while (this.watches.size < count) await new Promise((resolve) => setImmediate(resolve))
  }

  /** Sends a line on all watches. */
  send(line: unknown): void {
    for (const { response } of this.watches)
      response.write(`${typeof line === 'string' ? line : JSON.stringify(line)}\n`)
  }

  endWatches(): void {
    for (const { response } of this.watches) response.end()
  }

  /** Ends all connections in the middle of what they do. */
  cut(): void {
    for (const socket of this.sockets.splice(0)) socket.destroy()
  }

  /** Closes servers and clients. The server can be used again, with the objects that it has. */
  async close(): Promise<void> {
    for (const close of this.#closes.splice(0).reverse()) await close()
    this.sockets.length = 0
    this.answer = undefined
  }

  async #answer(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    if (this.answer !== undefined) return this.answer(request, response)
    if (this.warning !== undefined) response.setHeader('warning', `299 - "${this.warning}"`)
    const received = await readRequest(request)
    const { method, path, query } = received
    if (this.#isUnknownStream(received))
      return refuse(NO_STREAMS.status, NO_STREAMS.reason, NO_STREAMS.message)(request, response)
    const document = this.documents.get(request.url ?? '')
    const isWatch = query.has('watch')
    const isList = method === 'GET' && !isWatch
    const instead = (isWatch ? this.watchAnswers : isList ? this.listAnswers : []).shift()
    if (instead !== undefined || document !== undefined) {
      this.requests.push(received)
      return (instead ?? answerWith(200, document))(request, response)
    }
    let stop: () => void
    try {
      if (!isWatch) return answerWith(200, await this.#execute(received))(request, response)
      this.#record(received)
      stop = this.store.watch(received, (event) => {
        if (!this.isSilent) response.write(`${JSON.stringify(event)}\n`)
      })
    } catch (error) {
      const status = ApiError.is(error) ? error.status : 500
      const reason = ApiError.is(error) ? error.reason : 'InternalError'
      const message = ApiError.is(error) ? error.answer : String(error)
      return refuse(status, reason, message)(request, response)
    }
    response.flushHeaders()
    const watch = { path, query, response }
    this.watches.add(watch)
    response.on('close', () => {
      this.watches.delete(watch)
      stop()
    })
  }

  #isUnknownStream({ query }: StoreRequest): boolean {
    return query.has('sendInitialEvents') && !this.streamsLists
  }

  #record(request: StoreRequest): void {
    this.requests.push(request)
    const refusal = this.refusal(request)
    if (refusal !== undefined)
      throw new ApiError(`${request.method} ${request.path}`, { reason: 'Refused', ...refusal })
  }

  async #execute(request: StoreRequest): Promise<unknown> {
    this.#record(request)
    await this.before(request)
    return this.store.handle(request)
  }

  #sleep(ms: number): Promise<void> {
    if (ms === Number.POSITIVE_INFINITY) return new Promise(() => {})
    return ms === 0 ? Promise.resolve() : this.#clock.sleep(ms)
  }
}

/** An answer with a body: text as it is, or else JSON. */
export function answerWith(
  status: number,
  body: unknown,
  headers: http.OutgoingHttpHeaders = {},
): Handler {
  return (_request, response) =>
    response.writeHead(status, headers).end(typeof body === 'string' ? body : JSON.stringify(body))
}

/** A refusal, as an API server writes it. */
export function refuse(status: number, reason: string, message = 'refused'): Handler {
  return answerWith(status, { kind: 'Status', status: 'Failure', code: status, reason, message })
}

const NO_STREAMS = {
  status: 422,
  reason: 'Invalid',
  message: 'sendInitialEvents: Forbidden: it is forbidden for watch',
}

const PATCH_TYPES: Readonly<Record<string, PatchType>> = {
  'application/json-patch+json': 'json',
  'application/merge-patch+json': 'merge',
  'application/apply-patch+yaml': 'apply',
}

async function readRequest(request: http.IncomingMessage): Promise<StoreRequest> {
  let text = ''
  for await (const chunk of request) text += String(chunk)
  const { pathname: path, searchParams: query } = new URL(request.url ?? '', 'http://x')
  return {
    method: request.method ?? '',
    path,
    query,
    body: text === '' ? undefined : JSON.parse(text),
    patch: PATCH_TYPES[request.headers['content-type'] ?? ''],
    manager: query.get('fieldManager') ?? request.headers['user-agent'] ?? '',
  }
}
