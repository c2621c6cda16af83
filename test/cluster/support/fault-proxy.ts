import { once } from 'node:events'
import http from 'node:http'
import https from 'node:https'
import type { AddressInfo } from 'node:net'
import type { ClusterAccess } from '@akrijs/kube'

type Mode =
  | { readonly kind: 'well' }
  | { readonly kind: 'hangs' }
  | { readonly kind: 'refuses'; readonly status: number }

/**
 * A proxy of an API server with the credentials of a client. It behaves like a network or a server
 * with faults.
 */
export class FaultProxy {
  /** The access to the cluster through the proxy. */
  readonly access: ClusterAccess
  /** The number of requests, in any mode. */
  requests = 0
  /** Called for each answer of the server. @param url path and query of the request */
  onAnswer: (url: string, answer: http.IncomingMessage) => void = () => {}
  readonly #server: http.Server
  readonly #upstream: ClusterAccess
  readonly #agent: https.Agent
  readonly #token: string | undefined
  #mode: Mode = { kind: 'well' }
  /** For each forwarded answer, the function that makes it silent. */
  readonly #silence = new Set<() => void>()

  static async open(upstream: ClusterAccess): Promise<FaultProxy> {
    const { token, ca, cert, key, verify = true, serverName } = await upstream.credentials()
    const agent = new https.Agent({
      keepAlive: true,
      ca,
      cert,
      key,
      rejectUnauthorized: verify,
      servername: serverName,
    })
    const server = http.createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    return new FaultProxy(server, upstream, agent, token)
  }

  private constructor(
    server: http.Server,
    upstream: ClusterAccess,
    agent: https.Agent,
    token: string | undefined,
  ) {
    this.#server = server
    this.#upstream = upstream
    this.#agent = agent
    this.#token = token
    const { port } = server.address() as AddressInfo
    this.access = { server: new URL(`http://127.0.0.1:${port}`), credentials: async () => ({}) }
    server.on('request', (request, response) => this.#answer(request, response))
  }

  /** Ends all connections, also within an answer. */
  cut(): void {
    this.#server.closeAllConnections()
  }

  /** Answers no request, and stops open answers: the connections stay open, and are dead. */
  hang(): void {
    this.#mode = { kind: 'hangs' }
    for (const silence of this.#silence) silence()
  }

  /** Refuses new requests. Open watches continue. */
  refuse(status: number): void {
    this.#mode = { kind: 'refuses', status }
  }

  /** Serves new requests. Dead connections stay dead. */
  heal(): void {
    this.#mode = { kind: 'well' }
  }

  async close(): Promise<void> {
    this.cut()
    this.#agent.destroy()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  #answer(request: http.IncomingMessage, response: http.ServerResponse): void {
    this.requests++
    if (this.#mode.kind === 'hangs') return
    if (this.#mode.kind === 'refuses') {
      const { status } = this.#mode
      const message = `the proxy refuses with ${status}`
      response.writeHead(status, status === 429 ? { 'retry-after': '1' } : {})
      response.end(
        JSON.stringify({
          kind: 'Status',
          status: 'Failure',
          reason: 'Refused',
          message,
          code: status,
        }),
      )
      return
    }
    const { method, url = '/', headers } = request
    const { host: _host, connection: _connection, ...forwarded } = headers
    const authorization =
      this.#token === undefined ? {} : { authorization: `Bearer ${this.#token}` }
    const call = https.request(new URL(url, this.#upstream.server), {
      method,
      agent: this.#agent,
      headers: { ...forwarded, ...authorization },
    })
    let silent = false
    const silence = () => {
      silent = true
    }
    this.#silence.add(silence)
    response.on('close', () => {
      this.#silence.delete(silence)
      call.destroy()
    })
    call.on('error', () => {
      if (!silent) response.destroy()
    })
    call.on('response', (answer) => {
      if (silent) return
      this.onAnswer(url, answer)
      response.writeHead(answer.statusCode ?? 502, {
        'content-type': answer.headers['content-type'] ?? 'text/plain',
      })
      response.flushHeaders()
      answer.on('data', (chunk) => {
        if (!silent) response.write(chunk)
      })
      answer.on('end', () => {
        if (!silent) response.end()
      })
      answer.on('error', () => {
        if (!silent) response.destroy()
      })
    })
    request.pipe(call)
  }
}
