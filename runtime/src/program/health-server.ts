import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { defineError } from '../errors.js'

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

/** `/healthz`, `/readyz` and `/metrics`. */
export async function serveHealth({
  port,
  host,
  ready,
  healthy,
  metrics,
}: HealthServerOptions): Promise<HealthServer> {
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const path = request.url?.split('?')[0]
    if (request.method !== 'GET' && request.method !== 'HEAD')
      return reply(response, 405, 'only GET')
    if (path === '/healthz') return reply(response, ...verdict(await healthy?.()))
    if (path === '/readyz') return reply(response, ...verdict(ready()))
    if (path === '/metrics')
      return reply(response, 200, await metrics(), 'text/plain; version=0.0.4; charset=utf-8')
    return reply(response, 404, 'there are /healthz, /readyz and /metrics')
  }
  const server = createServer(
    { maxHeaderSize: 8192, requestTimeout: 5000 },
    (request, response) => {
      request.resume()
      answer(request, response).catch((error: unknown) => reply(response, 500, String(error)))
    },
  )
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) =>
      reject(
        new PortUnusableError(
          `cannot listen on port ${port} for health and metrics: ${error.message}`,
          { cause: error },
        ),
      ),
    )
    server.listen(port, host, resolve)
  })
  const address = server.address()
  return {
    port: typeof address === 'object' && address !== null ? address.port : port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

function verdict(problem: string | undefined): [number, string] {
  return problem === undefined ? [200, 'ok'] : [503, problem]
}

function reply(
  response: ServerResponse,
  code: number,
  text: string,
  type = 'text/plain; charset=utf-8',
): void {
  response.writeHead(code, { 'content-type': type }).end(`${text}\n`)
}
