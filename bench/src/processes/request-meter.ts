import diagnostics from 'node:diagnostics_channel'
import type { ClientRequest, IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { fieldOf } from '@akrijs/runtime'

/** What a process has asked API servers since its start. */
export interface RequestCounts {
  /** The answers by verb: `create`, `patch`, and so on; without watches and Leases. */
  readonly verbs: Readonly<Record<string, number>>
  /** The answers by which the server refused a change: 409, 422 and 429. */
  readonly refused: number
  /** The objects of watches of our resources, without bookmarks. */
  readonly events: number
  /**
   * The bytes of all connections, before encryption: headers, bodies and watches. Kubelets write
   * their Nodes all the time: watches of other resources than ours are left out.
   */
  readonly received: number
  readonly sent: number
  /** The last request or event of a watch, in milliseconds since the epoch. */
  readonly lastAt: number
  /** The time on a processor, in seconds. */
  readonly cpu: number
}

const VERBS: Readonly<Record<string, string>> = {
  GET: 'get',
  POST: 'create',
  PUT: 'update',
  PATCH: 'patch',
  DELETE: 'delete',
}
const REFUSALS = new Set([409, 422, 429])
const BOOKMARK = '{"type":"BOOKMARK"'
const OURS = '/apis/akri.sh/'

/** A Lease is renewed, and a watch is opened again, whatever happens to devices. */
const isRoutine = ({ path }: ClientRequest) => path.includes('/leases/') || isWatch(path)
const isWatch = (path: string) => /[?&]watch=/.test(path)

/** Counts what the HTTP clients of this process do, without any help of theirs. */
export class RequestMeter {
  readonly #verbs = new Map<string, number>()
  readonly #sockets = new Set<Socket>()
  /** The bytes of connections that have ended. */
  readonly #ended = { received: 0, sent: 0 }
  /** The bytes of watches of other resources. */
  #others = 0
  #refused = 0
  #events = 0
  #lastAt = Date.now()

  constructor() {
    diagnostics.subscribe('http.client.request.start', (message) => {
      const request = fieldOf(message, 'request') as ClientRequest
      if (!isRoutine(request)) this.#lastAt = Date.now()
    })
    diagnostics.subscribe('http.client.response.finish', (message) =>
      this.#answered(
        fieldOf(message, 'request') as ClientRequest,
        fieldOf(message, 'response') as IncomingMessage,
      ),
    )
  }

  counts(): RequestCounts {
    let { received, sent } = this.#ended
    for (const socket of this.#sockets) {
      received += socket.bytesRead
      sent += socket.bytesWritten
    }
    const { user, system } = process.cpuUsage()
    return {
      verbs: Object.fromEntries(this.#verbs),
      refused: this.#refused,
      events: this.#events,
      received: received - this.#others,
      sent,
      lastAt: this.#lastAt,
      cpu: (user + system) / 1e6,
    }
  }

  #answered(request: ClientRequest, response: IncomingMessage): void {
    this.#follow(response.socket)
    if (isWatch(request.path)) this.#followWatch(response, request.path.startsWith(OURS))
    if (isRoutine(request)) return
    const verb = VERBS[request.method] ?? request.method
    this.#verbs.set(verb, (this.#verbs.get(verb) ?? 0) + 1)
    if (REFUSALS.has(response.statusCode ?? 0)) this.#refused++
    this.#lastAt = Date.now()
  }

  #follow(socket: Socket): void {
    if (this.#sockets.has(socket)) return
    this.#sockets.add(socket)
    socket.once('close', () => {
      this.#sockets.delete(socket)
      this.#ended.received += socket.bytesRead
      this.#ended.sent += socket.bytesWritten
    })
  }

  /** A listener for data would take the data from the reader of the answer. */
  #followWatch(response: IncomingMessage, isOurs: boolean): void {
    const push = response.push.bind(response)
    let start = ''
    response.push = (chunk: unknown, encoding?: BufferEncoding) => {
      const bytes = Buffer.isBuffer(chunk) ? chunk : Buffer.alloc(0)
      if (!isOurs) this.#others += bytes.length
      const lines = isOurs ? bytes.toString('latin1').split('\n') : []
      for (const [index, line] of lines.entries()) {
        start = (index === 0 ? start : '') + line.slice(0, BOOKMARK.length)
        if (index === lines.length - 1 || start.startsWith(BOOKMARK)) continue
        this.#events++
        this.#lastAt = Date.now()
      }
      return push(chunk, encoding)
    }
  }
}
