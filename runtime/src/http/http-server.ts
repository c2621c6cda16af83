import { once } from 'node:events'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type net from 'node:net'
import { ConnectionBound, type ServerContext } from './connection-bound.js'

export { ConnectionBound }

export interface HttpLimits {
  readonly connections: number
  /** The longest time of a TLS handshake, and of a whole request, in milliseconds. */
  readonly requestMs: number
  /** The longest time in which no byte of an answer is sent, in milliseconds. */
  readonly silenceMs: number
  /** The longest time between two requests, in milliseconds. 0: a connection has one request. */
  readonly idleMs: number
}

interface HttpServerOptions extends ServerContext {
  /** 0: any free port. */
  readonly port: number
  /** @default all addresses */
  readonly host?: string | undefined
  readonly limits: HttpLimits
  /** @param path without the query */
  answer(path: string, request: IncomingMessage): Promise<HttpAnswer>
}

export interface HttpAnswer {
  readonly status: number
  readonly body: string | Buffer
  /** Beside the usual ones. @default plain text */
  readonly headers?: Readonly<Record<string, string>>
}

/** The time limit of open requests when the server closes, in milliseconds. */
const CLOSE_MS = 5000

/** The limits that `createServer` of `node:http` and `node:https` takes. */
export function serverSettings({ requestMs, idleMs }: HttpLimits) {
  return {
    handshakeTimeout: requestMs,
    headersTimeout: requestMs,
    requestTimeout: requestMs,
    connectionsCheckingInterval: Math.min(1000, requestMs),
    keepAliveTimeout: idleMs,
  }
}

/** Serves HTTP/1.1 to clients that may be hostile: connections and times have limits. */
export class HttpServer {
  readonly #server: Server
  readonly #options: HttpServerOptions
  readonly #connections: ConnectionBound
  /** The work on the request of each connection. */
  readonly #open = new Map<net.Socket, Promise<void>>()
  #isClosing = false

  private constructor(server: Server, options: HttpServerOptions) {
    this.#server = server
    this.#options = options
    this.#connections = new ConnectionBound(options.limits.connections, options)
    server.timeout = options.limits.silenceMs
    server.on('connection', (socket: net.Socket) => {
      socket.once('close', () => this.#connections.set(socket, 0))
      this.#connections.set(socket, 1)
    })
    server.on('request', (request, response) => {
      const { socket } = request
      // No known client sends a request before it has the answer to the last one.
      if (socket.destroyed || this.#open.has(socket)) return void socket.destroy()
      const done = this.#receive(request, response).finally(() => this.#open.delete(socket))
      this.#open.set(socket, done)
    })
  }

  /**
   * @param server with {@link serverSettings}
   * @throws if the address is in use, or the program may not listen there
   */
  static async open(server: Server, options: HttpServerOptions): Promise<HttpServer> {
    const { port, host, log, name } = options
    const opened = new HttpServer(server, options)
    await once(server.listen({ port, ...(host && { host }) }), 'listening')
    server.on('error', (err) => log.error({ err, server: name }, 'connection not accepted'))
    return opened
  }

  get port(): number {
    const address = this.#server.address()
    return typeof address === 'object' && address !== null ? address.port : 0
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
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()))
    const limit = new AbortController()
    const late = clock.sleep(CLOSE_MS, limit.signal).catch(() => undefined)
    await Promise.race([Promise.all(this.#open.values()), late])
    limit.abort()
    this.#connections.dropAll()
    await closed
  }

  async #receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { answer, log, name } = this.#options
    const { method, url = '', socket } = request
    const [path = ''] = url.split('?')
    try {
      this.#send(request, response, await answer(path, request))
    } catch (err) {
      if (socket.destroyed) return
      log.error({ err, server: name, method, path: path.slice(0, 100) }, 'request failed')
      const body = 'the request failed; the log of the program says why\n'
      this.#send(request, response, { status: 500, body })
    }
  }

  #send(request: IncomingMessage, response: ServerResponse, answer: HttpAnswer): void {
    const { status, body, headers } = answer
    const isLast = this.#isClosing || this.#options.limits.idleMs === 0 || !request.complete
    if (isLast) response.setHeader('connection', 'close')
    response.setHeader('content-type', 'text/plain; charset=utf-8')
    response.setHeader('content-length', Buffer.byteLength(body))
    response.writeHead(status, headers)
    if (request.complete) return void response.end(body)
    // A client that still sends reads no answer from a connection that has ended.
    response.write(body)
    request.resume().once('end', () => response.end())
  }
}
