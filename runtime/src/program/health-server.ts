import { type Clock, systemClock } from '../clock.js'
import { defineError, messageOf } from '../errors.js'
import type { Logger } from '../logger.js'
import { type HttpAnswer, HttpRefusal, type HttpRequest, HttpServer } from '../server/index.js'
import { HealthCheck } from './health-check.js'

/** The port of health and metrics is in use, or the program may not listen there. */
class PortUnusableError extends defineError('AKRI_ERR_PORT_UNUSABLE', 'terminal') {}

export interface HealthServerOptions {
  readonly port: number
  /** @default all addresses */
  readonly host?: string
  /** Whether the program does what it is there for: undefined, or why not. */
  ready(): string | undefined
  /** Whether the program works at all: undefined, or why not. @default it answers, so it works */
  healthy?(): Promise<string | undefined>
  /** Prometheus text. */
  metrics(): Promise<string>
}

export interface HealthServer {
  readonly port: number
  close(): Promise<void>
}

interface HealthServerContext {
  readonly log: Logger
  /** @default the clock of the system */
  readonly clock?: Clock
}

/** The time between two collections of the metrics, in milliseconds. */
const PAUSE_MS = 100

/**
 * The kubelet opens a connection for each probe, and each Prometheus keeps one: a few connections
 * are enough. Any Pod can reach the port.
 */
const LIMITS = {
  connections: 64,
  ofPeer: 16,
  newOfPeer: { burst: 50, refillMs: 100 },
  stageMs: { opened: 3000, receiving: 3000, answering: 10_000, sending: 10_000, idle: 5000 },
  body: 0,
  memory: 16 * 1024 * 1024,
}

/** `/healthz`, `/readyz` and `/metrics`. */
export async function serveHealth(
  { port, host, ready, healthy, metrics }: HealthServerOptions,
  { log, clock = systemClock }: HealthServerContext,
): Promise<HealthServer> {
  const health = new HealthCheck(clock, async () => healthy?.())
  // Many requests at once cost no more than one.
  const measured = shared(clock, async () => Buffer.from(`${await metrics()}\n`))
  const answer = async ({ method, path }: HttpRequest): Promise<HttpAnswer> => {
    if (method !== 'GET' && method !== 'HEAD')
      throw new HttpRefusal(405, 'only GET', { allow: 'GET, HEAD' })
    if (path === '/healthz') return verdict(await health.verdict())
    if (path === '/readyz') return verdict(ready())
    if (path === '/metrics')
      return {
        status: 200,
        type: 'text/plain; version=0.0.4; charset=utf-8',
        body: await measured(),
      }
    throw new HttpRefusal(404, 'there are /healthz, /readyz and /metrics')
  }
  const name = 'health'
  const options = { name, port, host, limits: LIMITS, keepAlive: false, answer, clock, log }
  const opening = HttpServer.open(options)
  const server = await opening.catch((error: unknown) => {
    throw new PortUnusableError(
      `cannot listen on port ${port} for health and metrics: ${messageOf(error)}`,
      { cause: error },
    )
  })
  return { port: server.port, close: () => server.close() }
}

/**
 * Calls while one is under way get its result. The next work begins {@link PAUSE_MS} after the last
 * began: so many requests cost no more processor time than few.
 */
function shared<T>(clock: Clock, work: () => Promise<T>): () => Promise<T> {
  let underWay: Promise<T> | undefined
  let begunAt = -Infinity
  const begin = async () => {
    const pause = begunAt + PAUSE_MS - clock.monotonicMs()
    if (pause > 0) await clock.sleep(pause)
    begunAt = clock.monotonicMs()
    return work()
  }
  return () => {
    underWay ??= begin().finally(() => {
      underWay = undefined
    })
    return underWay
  }
}

function verdict(problem: string | undefined): HttpAnswer {
  return {
    status: problem === undefined ? 200 : 503,
    type: 'text/plain; charset=utf-8',
    body: Buffer.from(`${problem ?? 'ok'}\n`),
  }
}
