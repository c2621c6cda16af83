import { once } from 'node:events'
import http from 'node:http'
import https from 'node:https'
import type { AddressInfo } from 'node:net'
import type { ClusterAccess } from '@akrijs/kube'

/**
 * A proxy of an API server with the credentials of a client. It behaves like a network or a server
 * with faults.
 */
export class FaultProxy {
  /** The access to the cluster through the proxy. */
  readonly access: ClusterAccess
  /** Called for each answer of the server. @param url path and query of the request */
  onAnswer: (url: string, answer: http.IncomingMessage) => void = () => {}
  readonly #server: http.Server
  readonly #upstream: ClusterAccess
  readonly #agent: https.Agent
  readonly #token: string | undefined
  /** The status of each answer; undefined while the proxy serves. */
  #refusal: number | undefined

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

  /** Refuses new requests. Open watches continue. */
  refuse(status: number): void {
    this.#refusal = status
  }

  /** Serves new requests. */
  heal(): void {
    this.#refusal = undefined
  }

  async close(): Promise<void> {
    this.cut()
    this.#agent.destroy()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  #answer(request: http.IncomingMessage, response: http.ServerResponse): void {
    const status = this.#refusal
    if (status !== undefined) {
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
    response.on('close', () => call.destroy())
    call.on('error', () => response.destroy())
    call.on('response', (answer) => {
      this.onAnswer(url, answer)
      response.writeHead(answer.statusCode ?? 502, {
        'content-type': answer.headers['content-type'] ?? 'text/plain',
      })
      response.flushHeaders()
      answer.on('data', (chunk) => response.write(chunk))
      answer.on('end', () => response.end())
      answer.on('error', () => response.destroy())
    })
    request.pipe(call)
  }
}
