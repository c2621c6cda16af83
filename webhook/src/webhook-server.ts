import { type Clock, type Logger, messageOf, mostJsonValues } from '@akrijs/runtime'
import {
  type HttpAnswer,
  type HttpLimits,
  HttpRefusal,
  type HttpRequest,
  HttpServer,
} from '@akrijs/runtime/server'
import type { KeyPair } from './certificates/x509.js'
import { WebhookPortError } from './errors.js'
import { FairTurns, type Turn } from './fair-turns.js'
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
  /** @param onChecked called as soon as the review only waits for other programs */
  review(request: AdmissionRequest, onChecked: () => void): Promise<Verdict>
  /** Called after each review, for metrics. */
  onReview?(operation: string, outcome: Verdict['outcome'] | 'failed', seconds: number): void
  readonly clock: Clock
  readonly log: Logger
}

/**
 * The most JSON values of a review. A value takes about 50 bytes of memory and up to four
 * microseconds. A review has the old and the new object, and each lists its fields again in
 * `managedFields`: an object of 10,000 values still fits.
 */
const MAX_VALUES = 50_000

/**
 * An API server opens a connection for each review at the same time (it writes 200 objects at once
 * by default), and keeps up to 25 idle ones for 90 seconds (HTTP/1.1: it uses no HTTP/2 for
 * webhooks). It may send a request at any time until then, so the webhook keeps them longer. In
 * some clusters the requests of all API servers, or of all Pods of a node, come from one address.
 * An idle connection takes 60 kB of memory.
 */
const LIMITS: HttpLimits = {
  connections: 600,
  ofPeer: 250,
  stageMs: { opened: 5000, receiving: 5000, answering: 30_000, sending: 5000, idle: 120_000 },
  // The old and the new object, each of at most 1.5 MiB in etcd.
  body: 4 * 1024 * 1024,
  memory: 16 * 1024 * 1024,
}

/** The HTTPS server of `POST /validate`. */
export class WebhookServer {
  readonly #server: HttpServer

  private constructor(server: HttpServer) {
    this.#server = server
  }

  /** @throws WebhookPortError */
  static async open(options: WebhookServerOptions): Promise<WebhookServer> {
    const { port, host, keyPair, clock, log } = options
    const reviews = new Reviews(options)
    const answer = (request: HttpRequest) => reviews.answer(request)
    const server = { name: 'webhook', port, host, keyPair, limits: LIMITS, answer, clock, log }
    const opening = HttpServer.open(server).catch((error: unknown) => {
      throw new WebhookPortError(`cannot listen on port ${port}: ${messageOf(error)}`, {
        cause: error,
      })
    })
    return new WebhookServer(await opening)
  }

  get port(): number {
    return this.#server.port
  }

  /**
   * Serves another certificate to new connections.
   * @throws if the key does not belong to the certificate
   */
  renew(keyPair: KeyPair): void {
    this.#server.renew(keyPair)
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
  readonly #turns: FairTurns

  constructor(options: WebhookServerOptions) {
    this.#options = options
    this.#turns = new FairTurns(options.clock)
  }

  async answer(request: HttpRequest): Promise<HttpAnswer> {
    const { path, method, headers, peer, signal } = request
    if (path !== '/validate') throw new HttpRefusal(404, 'there is /validate')
    if (method !== 'POST') throw new HttpRefusal(405, 'only POST', { allow: 'POST' })
    const type = headers['content-type']
    if (type !== undefined && !/^application\/json(;|$)/i.test(type))
      throw new HttpRefusal(415, 'send application/json')
    const body = await request.body()
    const turn = await this.#turns.take(peer, signal, namespaceIn(body))
    try {
      const review = readAdmissionReview(parse(body))
      if (typeof review === 'string') throw new HttpRefusal(400, review)
      const answer = admissionReview(review, await this.#judged(review, turn))
      return {
        status: 200,
        type: 'application/json',
        body: Buffer.from(JSON.stringify(answer)),
      }
    } finally {
      turn.end()
    }
  }

  async #judged(review: AdmissionRequest, turn: Turn): Promise<Verdict> {
    const { onReview, review: judge } = this.#options
    const begun = performance.now()
    let outcome: Verdict['outcome'] | 'failed' = 'failed'
    try {
      const verdict = await judge(review, () => turn.waits())
      outcome = verdict.outcome
      return verdict
    } finally {
      onReview?.(review.operation, outcome, (performance.now() - begun) / 1000)
    }
  }
}

/** So many bytes of a review have its namespace, after names of at most 253 characters. */
const HEAD_BYTES = 4096

/**
 * The namespace of a review, as API servers write it before the objects. Only the order of reviews
 * depends on it: no review is parsed before its turn.
 */
function namespaceIn(body: Buffer): string {
  const head = body.toString('latin1', 0, HEAD_BYTES)
  return /"namespace":"([-a-z0-9]{1,63})"/.exec(head)?.[1] ?? ''
}

function parse(body: Buffer): unknown {
  if (mostJsonValues(body) > MAX_VALUES)
    throw new HttpRefusal(
      413,
      `the review has more than ${MAX_VALUES} values; write a smaller Configuration`,
    )
  try {
    return JSON.parse(body.toString('utf8'))
  } catch {
    throw new HttpRefusal(400, 'the body is no JSON')
  }
}
