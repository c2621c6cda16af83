import type { IncomingMessage } from 'node:http'
import { type Clock, systemClock } from '../clock/clock.js'
import { type HttpAnswer, HttpServer, serverSettings } from '../http/http-server.js'
import { HealthCheck } from './health-check.js'
import type { Logger } from './logger.js'

// On Node.js 24, an import of node:http loads undici too: 2 MB.
const { createServer } = process.getBuiltinModule('node:http')

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
  /** Undefined if no port could be opened. */
  readonly port: number | undefined
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
const LIMITS = { connections: 64, requestMs: 3000, silenceMs: 10_000, idleMs: 0 }

/**
 * Serves `/healthz`, `/readyz` and `/metrics`. If the port cannot be opened, any free port is. The
 * program works on without a port too: devices must not depend on its metrics.
 */
export async function serveHealth(
  { port, host, ready, healthy, metrics }: HealthServerOptions,
  { log, clock = systemClock }: HealthServerContext,
): Promise<HealthServer> {
  const health = new HealthCheck(clock, async () => healthy?.())
  // Many requests at once cost no more than one.
  const measured = shared(clock, async () => Buffer.from(`${await metrics()}\n`))
  const answer = async (path: string, { method }: IncomingMessage): Promise<HttpAnswer> => {
    if (method !== 'GET' && method !== 'HEAD')
      return { status: 405, body: 'only GET\n', headers: { allow: 'GET, HEAD' } }
    if (path === '/healthz') return verdict(await health.verdict())
    if (path === '/readyz') return verdict(ready())
    if (path === '/metrics')
      return {
        status: 200,
        body: await measured(),
        headers: { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' },
      }
    return { status: 404, body: 'there are /healthz, /readyz and /metrics\n' }
  }
  const options = { name: 'health', host, limits: LIMITS, answer, clock, log }
  let err: unknown
  for (const candidate of [port, 0]) {
    try {
      const http = createServer(serverSettings(LIMITS))
      const server = await HttpServer.open(http, { ...options, port: candidate })
      if (err !== undefined)
        log.warn({ port, usedPort: server.port, err }, 'port of health and metrics not usable')
      return { port: server.port, close: () => server.close() }
    } catch (error) {
      err ??= error
    }
  }
  log.warn({ port, err }, 'health and metrics not served')
  return { port: undefined, close: async () => undefined }
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
  return { status: problem === undefined ? 200 : 503, body: `${problem ?? 'ok'}\n` }
}
