import type { IncomingMessage, ServerResponse } from 'node:http'
import https from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { type Clock, type Logger, messageOf } from '@akrijs/runtime'
import type { KeyPair } from './certificates/x509.js'
import { WebhookPortError } from './errors.js'
import {
  type AdmissionRequest,
  admissionReview,
  readAdmissionReview,
  type Verdict,
} from './review/admission-review.js'

interface WebhookServerOptions {
  readonly port: number
  /** @default all addresses */
  readonly host?: string
  readonly keyPair: KeyPair
  review(request: AdmissionRequest): Promise<Verdict>
  /** Called after each review, for metrics. */
  onReview?(operation: string, outcome: Verdict['outcome'] | 'failed', seconds: number): void
  readonly clock: Clock
  readonly log: Logger
}

/**
 * The largest body, in bytes. A review has the old and the new object, each of at most 1.5 MiB in
 * etcd.
 */
const MAX_BODY = 4 * 1024 * 1024
/**
 * The bytes of all bodies at once. Any program in the cluster can send reviews, which take more
 * space in memory.
 */
const MAX_BODIES = 2 * MAX_BODY
/**
 * The most JSON values of a review. The shortest value takes three bytes in the body and fifty in
 * memory; a value of a real review takes twenty bytes in the body.
 */
const MAX_VALUES = 300_000
const MAX_CONNECTIONS = 500
/** The time limits of headers and of a whole request, in milliseconds. */
const HEADERS_MS = 5000
const REQUEST_MS = 10_000
/** The time limit of open requests when the server closes, in milliseconds. */
const CLOSE_MS = 5000
/**
 * Idle connections are kept for this time, in milliseconds: longer than API servers keep them (90
 * s). If the webhook closed first, a request might be on its way.
 */
const KEEP_ALIVE_MS = 120_000

/** The answer to a request that is not reviewed. */
class Refusal extends Error {
  readonly status: number

  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

/** The HTTPS server of `POST /validate`. */
export class WebhookServer {
  readonly #options: WebhookServerOptions
  readonly #server: https.Server
  /** The requests whose answers are not sent yet. */
  readonly #answers = new Set<Promise<unknown>>()
  readonly #sockets = new Set<Socket>()
  #isClosing = false
  #port = 0
  #bodies = 0

  private constructor(options: WebhookServerOptions) {
    this.#options = options
    this.#server = https.createServer(
      {
        ...options.keyPair,
        minVersion: 'TLSv1.2',
        handshakeTimeout: HEADERS_MS,
        maxHeaderSize: 16 * 1024,
        headersTimeout: HEADERS_MS,
        requestTimeout: REQUEST_MS,
        keepAliveTimeout: KEEP_ALIVE_MS,
        connectionsCheckingInterval: 1000,
      },
      (request, response) => {
        const sent = new Promise((resolve) => response.once('close', resolve))
        const answered = Promise.all([this.#answer(request, response), sent])
        this.#answers.add(answered)
        void answered.finally(() => this.#answers.delete(answered))
      },
    )
    this.#server.maxConnections = MAX_CONNECTIONS
    this.#server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket)
      socket.once('close', () => this.#sockets.delete(socket))
    })
    // A client that speaks no TLS, or does not trust the certificate, logs the failure itself.
    this.#server.on('tlsClientError', (error) =>
      options.log.debug({ err: error }, 'TLS handshake failed'),
    )
  }

  /** @throws WebhookPortError */
  static async open(options: WebhookServerOptions): Promise<WebhookServer> {
    const webhook = new WebhookServer(options)
    const server = webhook.#server
    await new Promise<void>((resolve, reject) => {
      server.once('error', (error) =>
        reject(
          new WebhookPortError(`cannot listen on port ${options.port}: ${error.message}`, {
            cause: error,
          }),
        ),
      )
      server.listen(options.port, options.host, resolve)
    })
    webhook.#port = (server.address() as AddressInfo).port
    return webhook
  }

  get port(): number {
    return this.#port
  }

  /**
   * Serves another certificate to new connections.
   * @throws if the key does not belong to the certificate
   */
  renew({ cert, key }: KeyPair): void {
    this.#server.setSecureContext({ cert, key, minVersion: 'TLSv1.2' })
  }

  /**
   * Refuses new connections, answers open requests, and closes.
   * @param drainMs the time before that, in milliseconds, in which each answer asks the client to
   * close its connection.
   * @default 0
   */
  async close(drainMs = 0): Promise<void> {
    this.#isClosing = true
    if (drainMs > 0) await this.#options.clock.sleep(drainMs)
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()))
    const limit = new AbortController()
    const late = this.#options.clock.sleep(CLOSE_MS, limit.signal).catch(() => undefined)
    await Promise.race([Promise.all(this.#answers), late])
    limit.abort()
    // Not closeAllConnections, which does not know connections in a TLS handshake.
    for (const socket of this.#sockets) socket.destroy()
    await closed
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const answer = await this.#reviewed(request)
      if (this.#isClosing) response.setHeader('connection', 'close')
      reply(response, 200, 'application/json', JSON.stringify(answer))
    } catch (error) {
      if (response.destroyed) return
      const status = error instanceof Refusal ? error.status : 500
      if (status === 500) this.#options.log.error({ err: error }, 'review failed')
      // The rest of the request is not read: the connection cannot be used again.
      response.setHeader('connection', 'close')
      if (status === 405) response.setHeader('allow', 'POST')
      reply(
        response,
        status,
        'text/plain; charset=utf-8',
        `${status === 500 ? 'the review failed' : messageOf(error)}\n`,
      )
    }
  }

  async #reviewed(request: IncomingMessage): Promise<object> {
    if (request.url?.split('?')[0] !== '/validate') throw new Refusal(404, 'there is /validate')
    if (request.method !== 'POST') throw new Refusal(405, 'only POST')
    const type = request.headers['content-type']
    if (type !== undefined && !/^application\/json(;|$)/i.test(type))
      throw new Refusal(415, 'send application/json')
    if (Number(request.headers['content-length'] ?? 0) > MAX_BODY) throw tooLarge()
    const body = { bytes: 0 }
    try {
      const review = readAdmissionReview(parse(await this.#read(request, body)))
      if (typeof review === 'string') throw new Refusal(400, review)
      return admissionReview(review, await this.#judged(review))
    } finally {
      this.#bodies -= body.bytes
    }
  }

  async #judged(review: AdmissionRequest): Promise<Verdict> {
    const { onReview, review: judge } = this.#options
    const begun = performance.now()
    let outcome: Verdict['outcome'] | 'failed' = 'failed'
    try {
      const verdict = await judge(review)
      outcome = verdict.outcome
      return verdict
    } finally {
      onReview?.(review.operation, outcome, (performance.now() - begun) / 1000)
    }
  }

  /** @param body counts the bytes that were read, also after a failure */
  async #read(request: IncomingMessage, body: { bytes: number }): Promise<Buffer> {
    const chunks: Buffer[] = []
    // Not `for await`: an early exit ends the connection before the client reads the refusal.
    await new Promise<void>((resolve, reject) => {
      const onData = (chunk: Buffer) => {
        body.bytes += chunk.length
        this.#bodies += chunk.length
        chunks.push(chunk)
        const refusal =
          body.bytes > MAX_BODY
            ? tooLarge()
            : this.#bodies > MAX_BODIES
              ? new Refusal(503, 'too much data in open requests')
              : undefined
        if (refusal === undefined) return
        request.off('data', onData)
        reject(refusal)
      }
      request.on('data', onData)
      request.once('end', resolve)
      request.once('error', reject)
    })
    return Buffer.concat(chunks)
  }
}

function parse(body: Buffer): unknown {
  if (mostValues(body) > MAX_VALUES)
    throw new Refusal(413, `the body has more than ${MAX_VALUES} values`)
  try {
    return JSON.parse(body.toString('utf8'))
  } catch {
    throw new Refusal(400, 'the body is no JSON')
  }
}

/**
 * An upper bound of the values in a JSON text: each value but the first follows one of `{`, `[` and
 * `,`.
 */
function mostValues(json: Buffer): number {
  let count = 1
  for (const byte of json) if (byte === 0x7b || byte === 0x5b || byte === 0x2c) count++
  return count
}

function tooLarge(): Refusal {
  return new Refusal(413, `the body has more than ${MAX_BODY} bytes`)
}

function reply(response: ServerResponse, status: number, type: string, text: string): void {
  response
    .writeHead(status, { 'content-type': type, 'content-length': Buffer.byteLength(text) })
    .end(text)
}
