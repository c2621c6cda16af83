import { once } from 'node:events'
import http from 'node:http'
import https from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import type { Clock } from '@akrijs/runtime'
import { expect } from 'vitest'
import { ApiClient, type ApiClientOptions } from '../api-client.js'
import type { Credentials } from '../cluster-access.js'

export type Handler = (request: http.IncomingMessage, response: http.ServerResponse) => void

const answerNothing: Handler = (_request, response) => response.end('{}')

/** A server that answers what a test wants, and clients of it. */
export class TestServer {
  answer = answerNothing
  /** Of the connections that were made to it. */
  readonly sockets: Socket[] = []
  readonly #clock: Clock
  readonly #ends: (() => unknown)[] = []

  /** @param clock - that of clients for which no other is given */
  constructor(clock: Clock) {
    this.#clock = clock
  }

  readonly serve = async (
    server: http.Server = http.createServer(),
    host = '127.0.0.1',
  ): Promise<URL> => {
    server.on('request', (request, response) => this.answer(request, response))
    server.on(server instanceof https.Server ? 'secureConnection' : 'connection', (socket) =>
      this.sockets.push(socket),
    )
    server.listen(0, host)
    await once(server, 'listening')
    this.#ends.push(async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    })
    const { port } = server.address() as AddressInfo
    const secure = server instanceof https.Server
    return new URL(
      `${secure ? 'https' : 'http'}://${host.includes(':') ? `[${host}]` : host}:${port}`,
    )
  }

  readonly connect = (
    server: URL,
    options: Partial<ApiClientOptions> = {},
    credentials: () => Promise<Credentials> = async () => ({}),
  ): ApiClient => {
    const client = new ApiClient({
      access: { server, credentials },
      clock: this.#clock,
      userAgent: 'test',
      ...options,
    })
    this.#ends.push(() => client.close())
    return client
  }

  /** Closes what a test opened; the next one begins anew. */
  async reset(): Promise<void> {
    for (const end of this.#ends.splice(0).reverse()) await end()
    this.sockets.length = 0
    this.answer = answerNothing
  }
}

export const refuse = (
  status: number,
  body: unknown,
  headers: http.OutgoingHttpHeaders = {},
): Handler => {
  return (_request, response) =>
    response.writeHead(status, headers).end(typeof body === 'string' ? body : JSON.stringify(body))
}

export async function failure(work: Promise<unknown>): Promise<unknown> {
  try {
    await work
  } catch (error) {
    return error
  }
  return expect.fail('it did not fail')
}

export const get = (client: ApiClient, signal?: AbortSignal) =>
  client.request({ method: 'GET', path: '/x', signal })
