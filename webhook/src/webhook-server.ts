import { constants } from 'node:crypto'
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import https from 'node:https'
import { setImmediate } from 'node:timers/promises'
import { type Clock, type Logger, messageOf, mostJsonValues } from '@akrijs/runtime'
import { ConnectionBound, type HttpAnswer, HttpServer, serverSettings } from '@akrijs/runtime/http'
import type { KeyPair } from './certificates/x509.js'
import { WebhookPortError } from './errors.js'
import { CONNECTION_LIMITS, MAX_BODY, MAX_MEMORY, MAX_VALUES, VALUE_BYTES } from './limits.js'
import { bodyOf } from './request-body.js'
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

/** The HTTPS server of `POST /validate`. */
export class WebhookServer {
  readonly #https: https.Server
  readonly #server: HttpServer

  private constructor(secure: https.Server, server: HttpServer) {
    this.#https = secure
    this.#server = server
  }

  /** @throws WebhookPortError */
  static async open(options: WebhookServerOptions): Promise<WebhookServer> {
    const { port, host, keyPair, clock, log } = options
    const secure = https.createServer({ ...serverSettings(CONNECTION_LIMITS), ...secured(keyPair) })
    // A client that speaks no TLS, or does not trust the certificate, logs the failure itself.
    secure.on('tlsClientError', (err) => log.debug({ err }, 'TLS connection failed'))
    const reviews = new Reviews(options)
    const server = await HttpServer.open(secure, {
      name: 'webhook',
      port,
      host,
      limits: CONNECTION_LIMITS,
      answer: (path, request) => reviews.answer(path, request),
      clock,
      log,
    }).catch((error: unknown) => {
      throw new WebhookPortError(`cannot listen on port ${port}: ${messageOf(error)}`, {
        cause: error,
      })
    })
    return new WebhookServer(secure, server)
  }

  get port(): number {
    return this.#server.port
  }

  /**
   * Serves another certificate to new connections.
   * @throws if the key does not belong to the certificate
   */
  renew(keyPair: KeyPair): void {
    this.#https.setSecureContext(secured(keyPair))
  }

  /**
   * Refuses new connections, answers open requests, and closes.
   * @param drainMs the time before that, in milliseconds, in which each answer asks the client to
   * close its connection.
   * @default 0
   */
  close(drainMs = 0): Promise<void> {
    return this.#server.close(drainMs)
  }
}

class Reviews {
  readonly #options: WebhookServerOptions
  readonly #memory: ConnectionBound
  #lastTurn = Promise.resolve()

  constructor(options: WebhookServerOptions) {
    this.#options = options
    const { clock, log } = options
    this.#memory = new ConnectionBound(MAX_MEMORY, { name: 'memory of the webhook', clock, log })
  }

  async answer(path: string, request: IncomingMessage): Promise<HttpAnswer> {
    const { method, headers, socket } = request
    if (path !== '/validate') return refusal(404, 'there is /validate')
    if (method !== 'POST') return { ...refusal(405, 'only POST'), headers: { allow: 'POST' } }
    const type = headers['content-type']
    if (type !== undefined && !/^application\/json(;|$)/i.test(type))
      return refusal(415, 'send application/json')
    const ended = new AbortController()
    const closed = once(socket, 'close', { signal: ended.signal }).catch(() => undefined)
    try {
      return await this.#answerReview(request, closed)
    } finally {
      ended.abort()
      this.#memory.set(socket, 0)
    }
  }

  async #answerReview(request: IncomingMessage, closed: Promise<unknown>): Promise<HttpAnswer> {
    const { socket } = request
    const body = await bodyOf(request, MAX_BODY, (bytes) => this.#memory.set(socket, bytes))
    if (body === undefined) return refusal(413, `the body has more than ${MAX_BODY} bytes`)
    const values = mostJsonValues(body)
    const tooMany = `the review has more than ${MAX_VALUES} values; write a smaller Configuration`
    if (values > MAX_VALUES) return refusal(413, tooMany)
    this.#memory.set(socket, body.length + values * VALUE_BYTES)
    // One review begins in an iteration of the event loop: probes are answered in between.
    this.#lastTurn = this.#lastTurn.then(() => setImmediate())
    await Promise.race([this.#lastTurn, closed])
    if (socket.destroyed) throw new Error('the connection closed before the review')
    const json = parsed(body)
    if (json === undefined) return refusal(400, 'the body is no JSON')
    const review = readAdmissionReview(json)
    if (typeof review === 'string') return refusal(400, review)
    const answer = admissionReview(review, await this.#judged(review))
    const headers = { 'content-type': 'application/json' }
    return { status: 200, body: JSON.stringify(answer), headers }
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
}

/** @returns undefined if the body is no JSON */
function parsed(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'))
  } catch {
    return undefined
  }
}

function refusal(status: number, problem: string): HttpAnswer {
  return { status, body: `${problem}\n` }
}

/** The settings of TLS. */
function secured({ cert, key }: KeyPair) {
  const secureOptions = constants.SSL_OP_NO_RENEGOTIATION
  return { cert, key, minVersion: 'TLSv1.2' as const, secureOptions }
}
