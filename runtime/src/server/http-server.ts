import { constants } from 'node:crypto'
import http, {
  type IncomingHttpHeaders,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http'
import type net from 'node:net'
import tls from 'node:tls'
import type { Clock } from '../clock.js'
import type { Logger } from '../logger.js'
import {
  type BoundedConnection,
  BoundedListener,
  type ConnectionLimits,
} from './bounded-listener.js'
import { HttpRefusal } from './http-refusal.js'
import { MemoryBudget } from './memory-budget.js'
import { OpenRequest } from './open-request.js'

export interface HttpLimits extends ConnectionLimits {
  /** The longest body, in bytes. 0: requests have no body. */
  readonly body: number
  /** The bytes of all bodies and unread answers in memory. */
  readonly memory: number
}

interface HttpServerOptions {
  /** What the log calls the server. */
  readonly name: string
  /** 0: any free port. */
  readonly port: number
  /** @default all addresses */
  readonly host?: string | undefined
  /** @default no TLS */
  readonly keyPair?: TlsKeyPair
  readonly limits: HttpLimits
  /** Whether a connection serves more than one request. @default true */
  readonly keepAlive?: boolean
  answer(request: HttpRequest): Promise<HttpAnswer>
  readonly clock: Clock
  readonly log: Logger
}

/** A certificate and its key, PEM. */
interface TlsKeyPair {
  readonly cert: string
  readonly key: string
}

interface Client {
  readonly connection: BoundedConnection
  /** The stream of HTTP, inside TLS. */
  readonly stream: net.Socket
  /** Requests that have begun and whose answers have not been sent. */
  requests: number
  /** Resolves when the answer to the last request has been sent, to whether it is the last one. */
  sent: Promise<boolean>
  /** Refuses the request that takes too long. */
  onLate: (() => void) | undefined
}

export interface HttpRequest {
  readonly method: string
  /** Without the query. */
  readonly path: string
  readonly headers: IncomingHttpHeaders
  /** The address of the client. */
  readonly peer: string
  /** Aborted when the connection has closed, or the request is refused. */
  readonly signal: AbortSignal
  /**
   * Reads the whole body. Its memory counts until the answer has been sent.
   * @throws HttpRefusal if the body is too large or too slow, or has to give way
   */
  body(): Promise<Buffer>
}

export interface HttpAnswer {
  readonly status: number
  readonly type: string
  readonly body: Buffer
}

const MAX_HEADER_BYTES = 16 * 1024
const MAX_HEADERS = 100
/** The time limit of open requests when the server closes, in milliseconds. */
const CLOSE_MS = 5000
const TLS_VERSION = 'TLSv1.2'

/**
 * An HTTP/1.1 server for hostile clients: bounded connections, times and memory, and one request at
 * a time on each connection.
 */
export class HttpServer {
  readonly #options: HttpServerOptions
  readonly #listener: BoundedListener
  readonly #http: http.Server
  readonly #memory: MemoryBudget
  readonly #clients = new WeakMap<BoundedConnection, Client>()
  readonly #clientOf = new WeakMap<net.Socket, Client>()
  /** The requests whose answers are not sent yet. */
  readonly #open = new Set<Promise<unknown>>()
  #context: tls.SecureContext | undefined
  #isClosing = false

  private constructor(options: HttpServerOptions) {
    const { name, limits, clock, log, keyPair } = options
    this.#options = options
    this.#memory = new MemoryBudget(limits.memory)
    if (keyPair !== undefined) this.renew(keyPair)
    // This server does not listen: the listener passes connections to it, and checks their times.
    this.#http = http.createServer(
      { maxHeaderSize: MAX_HEADER_BYTES, keepAliveTimeout: 0 },
      (request, response) => this.#receive(request, response),
    )
    this.#http.maxHeadersCount = MAX_HEADERS
    this.#listener = new BoundedListener({
      name,
      limits,
      clock,
      log,
      onConnection: (connection) => this.#connect(connection),
      onLate: (connection) => this.#endLate(connection),
    })
  }

  /** @throws if the address is in use, or the program may not listen there */
  static async open(options: HttpServerOptions): Promise<HttpServer> {
    const server = new HttpServer(options)
    await server.#listener.listen({
      port: options.port,
      ...(options.host && { host: options.host }),
    })
    return server
  }

  get port(): number {
    return this.#listener.port
  }

  /**
   * Serves another certificate to new connections.
   * @throws if the key does not belong to the certificate
   */
  renew({ cert, key }: TlsKeyPair): void {
    const secureOptions = constants.SSL_OP_NO_RENEGOTIATION
    this.#context = tls.createSecureContext({ cert, key, minVersion: TLS_VERSION, secureOptions })
  }

  /**
   * Refuses new connections, answers open requests, and closes.
   * @param drainMs the time before that, in milliseconds, in which each answer asks the client to
   * close its connection.
   * @default 0
   */
  async close(drainMs = 0): Promise<void> {
    this.#isClosing = true
    const { clock } = this.#options
    if (drainMs > 0) await clock.sleep(drainMs)
    this.#listener.stop()
    const limit = new AbortController()
    const late = clock.sleep(CLOSE_MS, limit.signal).catch(() => undefined)
    await Promise.race([Promise.all(this.#open), late])
    limit.abort()
    await this.#listener.close()
  }

  #connect(connection: BoundedConnection): void {
    const stream = this.#streamOf(connection.socket)
    const client: Client = {
      connection,
      stream,
      requests: 0,
      sent: Promise.resolve(false),
      onLate: undefined,
    }
    this.#clients.set(connection, client)
    this.#clientOf.set(stream, client)
    this.#http.emit('connection', stream)
  }

  #streamOf(socket: net.Socket): net.Socket {
    if (this.#context === undefined) return socket
    const stream = new tls.TLSSocket(socket, {
      isServer: true,
      secureContext: this.#context,
      ALPNProtocols: ['http/1.1'],
    })
    // A client that speaks no TLS, or does not trust the certificate, logs the failure itself.
    stream.on('error', (err) => this.#options.log.debug({ err }, 'TLS connection failed'))
    return stream
  }

  #receive(request: IncomingMessage, response: ServerResponse): void {
    const client = this.#clientOf.get(request.socket)
    // No known client sends a request before it has the answer to the last one. It may have all of
    // the answer before this server knows.
    const isEarly =
      client !== undefined && client.requests > (client.connection.stage === 'sending' ? 1 : 0)
    // The parser goes on with what it has of a destroyed connection.
    if (client === undefined || isEarly || request.socket.destroyed)
      return void request.socket.destroy()
    const { connection } = client
    client.requests++
    if (client.requests === 1 && connection.stage !== 'ending') connection.enter('receiving')
    const closed = new Promise<void>((resolve) => response.once('close', resolve))
    const { body: longest, stageMs } = this.#options.limits
    const open = new OpenRequest({ connection, request, response, budget: this.#memory, longest })
    const before = client.sent
    const work = async (): Promise<boolean> => {
      if (await before) return true
      if (connection.stage === 'idle') connection.enter('receiving')
      client.onLate = () => open.refuse(tooSlow(stageMs.receiving))
      const isLast = await this.#answer(connection, request, response, open)
      await closed
      if (!isLast) connection.enter('idle')
      client.onLate = undefined
      return isLast
    }
    const sent = work().finally(() => {
      client.requests--
      open.release()
      this.#open.delete(sent)
    })
    client.sent = sent
    this.#open.add(sent)
  }

  /** @returns whether the connection serves no other request */
  async #answer(
    connection: BoundedConnection,
    request: IncomingMessage,
    response: ServerResponse,
    open: OpenRequest,
  ): Promise<boolean> {
    const { limits, answer, log, name, keepAlive = true } = this.#options
    const { method = '', headers } = request
    const path = request.url?.split('?')[0] ?? ''
    try {
      const { status, type, body } = await open.unlessRefused(() => {
        if (limits.body === 0) connection.enter('answering')
        return answer({
          method,
          path,
          headers,
          peer: connection.peer,
          signal: open.signal,
          async body() {
            const received = await open.body()
            connection.enter('answering')
            return received
          },
        })
      })
      open.count(body)
      // An answer before the end of the request: the connection cannot be used again.
      const isLast = this.#isClosing || !keepAlive || !request.complete || !response.shouldKeepAlive
      if (isLast) response.setHeader('connection', 'close')
      connection.enter('sending')
      reply(response, status, type, body)
      return isLast
    } catch (error) {
      if (response.destroyed) return true
      const refusal = error instanceof HttpRefusal ? error : undefined
      if (refusal === undefined)
        log.error({ err: error, server: name, method, path: shown(path) }, 'request failed')
      // The rest of the request is not read: the connection cannot be used again.
      response.setHeader('connection', 'close')
      for (const [key, value] of Object.entries(refusal?.headers ?? {}))
        response.setHeader(key, value)
      connection.enter('ending')
      const text = refusal?.message ?? 'the request failed; the log of the program says why'
      const status = refusal?.status ?? 500
      reply(response, status, 'text/plain; charset=utf-8', Buffer.from(`${text}\n`))
      return true
    }
  }

  #endLate(connection: BoundedConnection): void {
    const client = this.#clients.get(connection)
    const { stage } = connection
    const isReceiving = stage === 'receiving' || (stage === 'opened' && connection.hasReceived)
    if (client === undefined || !isReceiving) return void connection.socket.destroy()
    connection.enter('ending')
    if (client.onLate !== undefined) client.onLate()
    else client.stream.end('HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n')
  }
}

function reply(response: ServerResponse, status: number, type: string, body: Buffer): void {
  response.writeHead(status, { 'content-type': type, 'content-length': body.length }).end(body)
}

function tooSlow(ms: number): HttpRefusal {
  return new HttpRefusal(408, `the request took longer than ${ms} ms`)
}

/** A path in a log: a client can send any text. */
function shown(path: string): string {
  return path.length > 100 ? `${path.slice(0, 100)}…` : path
}
