import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { type Clock, codeOf, type Logger, messageOf } from '@akrijs/runtime'
import { UiPortError } from '../errors.js'
import type { UiSource } from '../source.js'
import { admissionOf, type Door } from './admission.js'
import { streamChanges } from './change-stream.js'
import { PageFiles } from './page-files.js'
import { Trials } from './trials.js'

// On Node.js 24, an import of node:http loads undici too: 2 MB.
const { createServer } = process.getBuiltinModule('node:http')

const LOOPBACK = '127.0.0.1'
/** Open pages at a time: each one is a stream. */
const MAX_STREAMS = 16
/** Streams, and what browsers ask for beside them. */
const MAX_CONNECTIONS = 64
/** A reader that takes nothing for so long is closed, in milliseconds; it can come again. */
const SILENCE_MS = 60_000
/** The bytes of a token. */
const TOKEN_BYTES = 32

const HEADERS = {
  'content-security-policy': [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    // No script can write markup.
    "require-trusted-types-for 'script'",
  ].join('; '),
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
  // Not in a cache, where another user of the browser could find it.
  'cache-control': 'no-store',
}

interface UiServerOptions {
  readonly source: UiSource
  /** The directory with the files of the page. */
  readonly page: URL
  /** @default 0: any free port */
  readonly port?: number
  readonly clock: Clock
  readonly log: Logger
  /** @default random */
  readonly token?: string
  /** @default visitors of this machine, by a token */
  readonly proxied?: ProxiedUi | undefined
  /** What to do if the port cannot be used. @default 'choose another port' */
  readonly remedy?: string
}

/** A page behind a proxy that knows its visitors. */
export interface ProxiedUi {
  /** The hosts in the addresses of browsers, with a port that is not the usual one. */
  readonly hosts: readonly string[]
  /** The address of this machine, which the proxy can reach. @default all addresses */
  readonly listen?: string | undefined
}

export interface UiServer {
  /** The address with the token, for a person to open; behind a proxy, that of this server. */
  readonly address: string
  close(): Promise<void>
}

/**
 * Serves the page for reading only, unless the source takes Configurations: on the loopback
 * interface, to browsers that know its token; or behind a proxy, without a token and for reading.
 * @throws UiPortError if the port is in use, or not allowed
 */
export async function serveUi(options: UiServerOptions): Promise<UiServer> {
  const { log, port: wanted = 0, proxied, remedy = 'choose another port' } = options
  const token = options.token ?? randomBytes(TOKEN_BYTES).toString('base64url')
  const files = new PageFiles(options.page)
  let door: Door = proxied ?? { port: wanted, token }
  let streams = 0
  const { trial } = options.source
  const trials = trial && new Trials(trial)

  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const { method, headers, url = '' } = request
    const [path = '', query] = url.split('?', 2)
    // For the probes of a kubelet, which names no host.
    if (proxied !== undefined && path === '/healthz')
      return end(response, 200, 'ok\n', 'text/plain; charset=utf-8')
    const given = path === '/' ? new URLSearchParams(query).get('token') : null
    const takesPost = trials?.takes(path) ?? false
    const admission = admissionOf({ method, headers, given, takesPost }, door)
    if (admission.kind === 'admitted' && method === 'POST' && trials !== undefined) {
      const { status, body } = await trials.answer(path, request, response)
      return end(response, status, body, 'application/json')
    }
    request.resume()
    if (admission.kind === 'refused')
      return end(response, admission.status, noticeOf(admission.reason))
    if (admission.kind === 'welcome') {
      response.setHeader('set-cookie', admission.cookie)
      response.setHeader('location', '/')
      return end(response, 303, '')
    }
    const file = files.get(path)
    if (file !== undefined) return end(response, 200, file.content, file.type)
    if (path !== '/api/watch') return end(response, 404, noticeOf('There is no such page.'))
    if (streams >= MAX_STREAMS)
      return end(response, 503, noticeOf(`${MAX_STREAMS} pages are open: close one.`))
    streams++
    try {
      await stream(response, options)
    } finally {
      streams--
    }
  }

  const server = createServer({ maxHeaderSize: 8192 }, (request, response) => {
    answer(request, response).catch((err: unknown) => {
      log.error({ err }, 'page not served')
      response.destroy()
    })
  })
  server.maxConnections = MAX_CONNECTIONS
  server.timeout = SILENCE_MS
  const host = proxied === undefined ? LOOPBACK : proxied.listen
  try {
    await once(server.listen(wanted, host), 'listening')
  } catch (error) {
    const why = codeOf(error) === 'EADDRINUSE' ? 'another program uses it' : messageOf(error)
    throw new UiPortError(
      `the page cannot be served at port ${wanted} of ${host ?? 'this machine'}: ${why}; ${remedy}`,
      { cause: error },
    )
  }
  server.on('error', (err) => log.error({ err }, 'connection to the page not accepted'))
  const address = server.address()
  const port = typeof address === 'object' && address !== null ? address.port : wanted
  if (proxied === undefined) door = { port, token }
  const query = proxied === undefined ? `?token=${token}` : ''
  const shownHost = host?.includes(':') ? `[${host}]` : (host ?? 'localhost')
  return {
    address: `http://${shownHost}:${port}/${query}`,
    close: async () => {
      const closed = once(server.close(), 'close')
      server.closeAllConnections()
      await closed
    },
  }
}

function end(
  response: ServerResponse,
  status: number,
  body: string | Buffer,
  type = 'text/html; charset=utf-8',
): void {
  response.writeHead(status, { ...HEADERS, 'content-type': type }).end(body)
}

/** @param text of ours: it has no text of a request or a device */
function noticeOf(text: string): string {
  return `<!doctype html><html lang="en"><title>akri</title><p>${text}</p></html>\n`
}

async function stream(response: ServerResponse, { source, clock }: UiServerOptions): Promise<void> {
  const over = new AbortController()
  const { signal } = over
  response.once('close', () => over.abort())
  response.writeHead(200, {
    ...HEADERS,
    'content-type': 'text/event-stream',
    // nginx as the proxy would keep messages back.
    'x-accel-buffering': 'no',
  })
  await streamChanges({
    source,
    clock,
    signal,
    write: async (text) => {
      if (response.write(text)) return
      await once(response, 'drain', { signal }).catch(() => undefined)
    },
  })
  response.end()
}
