import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import http from 'node:http'
import https from 'node:https'
import type { Clock } from '@akrijs/runtime'
import type { ClusterAccess, Credentials } from './cluster-access.js'
import { ApiError, type ApiStatus, ApiUnreachableError } from './errors.js'

export interface ApiClientOptions {
  readonly access: ClusterAccess
  readonly clock: Clock
  readonly userAgent: string
  /** How long an answer may take, from the call to its last byte, in milliseconds. @default 30000 */
  readonly timeoutMs?: number
  /** The longest answer that is read, in bytes. @default 64 MiB */
  readonly maxBytes?: number
  /** Told of every answer, for metrics. */
  onAnswer?(request: { readonly method: string; readonly status: number }): void
}

export type PatchType = 'json' | 'merge' | 'apply'

export interface ApiRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  readonly path: string
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>
  readonly body?: unknown
  /** Of the body. @default JSON */
  readonly patch?: PatchType
  readonly signal?: AbortSignal | undefined
  /** @default that of the client */
  readonly timeoutMs?: number
}

const PATCH_TYPES: Readonly<Record<PatchType, string>> = {
  json: 'application/json-patch+json',
  merge: 'application/merge-patch+json',
  // JSON is YAML.
  apply: 'application/apply-patch+yaml',
}

/** How long credentials are used before they are asked for again, in milliseconds. A Pod's token lives for ten minutes at least. */
const CREDENTIALS_MS = 60_000
/** How often a request is sent again that the server had no time for. */
const MAX_RETRIES = 5
/** The longest that a server may make us wait, in milliseconds. */
const MAX_RETRY_AFTER_MS = 30_000
/** How many bytes of an error are read, at most: enough for a Status. */
const MAX_ERROR_BYTES = 256 * 1024
/** How much of its message is kept, in characters: it goes to logs. */
const MAX_MESSAGE = 2000
/** When an idle connection is closed, in milliseconds: before the server (90 s) or what is between us and it does so. */
const IDLE_MS = 30_000

/** Speaks to one API server over connections that are kept. */
export class ApiClient {
  readonly #options: Required<Omit<ApiClientOptions, 'onAnswer'>> &
    Pick<ApiClientOptions, 'onAnswer'>
  #credentials: { readonly value: Credentials; readonly at: number } | undefined
  #agent: { readonly agent: https.Agent | http.Agent; readonly of: string } | undefined

  constructor(options: ApiClientOptions) {
    this.#options = { timeoutMs: 30_000, maxBytes: 64 * 1024 * 1024, ...options }
  }

  get server(): URL {
    return this.#options.access.server
  }

  /**
   * Asks, and reads the whole answer. Sends again what the server had no time for (429), and what a kept connection lost
   * before there was an answer, if doing it twice does no harm.
   * @throws ApiError, ApiUnreachableError
   */
  async request(request: ApiRequest): Promise<unknown> {
    const { timeoutMs = this.#options.timeoutMs } = request
    const title = `${request.method} ${request.path}`
    // Not AbortSignal.any: each leaves a few bytes on a signal that lives as long as the program (Node 20).
    const end = new AbortController()
    const onAbort = () => end.abort(request.signal?.reason)
    if (request.signal?.aborted) onAbort()
    request.signal?.addEventListener('abort', onAbort, { once: true })
    let late = false
    const timer = setTimeout(() => {
      late = true
      end.abort()
    }, timeoutMs)
    try {
      const response = await this.#open(request, end.signal)
      const text = await readAll(response, this.#options.maxBytes, title)
      return text === '' ? undefined : parseJson(text, response, title)
    } catch (error) {
      if (error instanceof ApiError) throw error
      if (late)
        throw new ApiUnreachableError(`${title}: no answer within ${timeoutMs} ms`, {
          cause: error,
        })
      throw unreachable(title, error)
    } finally {
      clearTimeout(timer)
      request.signal?.removeEventListener('abort', onAbort)
    }
  }

  /**
   * Asks, and hands over the answer as it comes, line by line. Nothing but the caller's signal ends it early.
   * @param onOpen called when there is an answer, though no line of it has come yet
   * @throws ApiError, ApiUnreachableError
   */
  async *lines(
    request: ApiRequest,
    signal: AbortSignal,
    onOpen?: () => void,
  ): AsyncGenerator<string, void, void> {
    const title = `${request.method} ${request.path}`
    let response: IncomingMessage | undefined
    try {
      response = await this.#open(request, signal)
      onOpen?.()
      yield* splitLines(response, this.#options.maxBytes, title)
    } catch (error) {
      throw error instanceof ApiError ? error : unreachable(title, error)
    } finally {
      response?.destroy()
    }
  }

  /** Ends the connections that are kept. */
  close(): void {
    this.#agent?.agent.destroy()
    this.#agent = undefined
  }

  /** The answer, if it is a good one. */
  async #open(request: ApiRequest, signal: AbortSignal): Promise<IncomingMessage> {
    const { clock, onAnswer } = this.#options
    let renewed = false
    for (let attempt = 0; ; ) {
      const response = await this.#send(request, signal)
      const status = response.statusCode ?? 0
      onAnswer?.({ method: request.method, status })
      if (status >= 200 && status < 300) return response
      const failure = await failureOf(response)
      // The token may have been renewed since it was read.
      if (status === 401 && !renewed) {
        renewed = true
        this.#credentials = undefined
        continue
      }
      if (status !== 429 || attempt++ >= MAX_RETRIES)
        throw new ApiError(`${request.method} ${request.path}`, failure)
      await clock.sleep(Math.min(failure.retryAfterMs ?? 1000, MAX_RETRY_AFTER_MS), signal)
    }
  }

  async #send(request: ApiRequest, signal: AbortSignal): Promise<IncomingMessage> {
    for (let attempt = 0; ; attempt++) {
      const sent = await this.#sendOnce(request, signal)
      if ('response' in sent) return sent.response
      // Most likely the server closed the connection while it was idle, and we had not heard of it. But it may also have
      // died after it did what we asked for (RFC 9110 9.2.2).
      if (!sent.lost || !isRepeatable(request) || attempt > 0 || signal.aborted) throw sent.error
    }
  }

  async #sendOnce(
    { method, path, query = {}, body, patch }: ApiRequest,
    signal: AbortSignal,
  ): Promise<{ response: IncomingMessage } | { error: unknown; lost: boolean }> {
    const { access, userAgent } = this.#options
    const credentials = await untilAborted(this.#currentCredentials(), signal)
    const url = new URL(access.server.href.replace(/\/$/, '') + path)
    for (const [name, value] of Object.entries(query))
      if (value !== undefined) url.searchParams.set(name, String(value))
    const text = body === undefined ? undefined : JSON.stringify(body)
    const headers: Record<string, string> = { accept: 'application/json', 'user-agent': userAgent }
    if (credentials.token !== undefined) headers.authorization = `Bearer ${credentials.token}`
    if (text !== undefined) {
      headers['content-type'] = patch === undefined ? 'application/json' : PATCH_TYPES[patch]
      headers['content-length'] = String(Buffer.byteLength(text))
    }
    const agent = this.#agentFor(credentials)
    return new Promise((resolve) => {
      const secure = url.protocol === 'https:'
      const call = (secure ? https : http).request(
        url,
        { method, headers, agent, signal },
        (response) => resolve({ response }),
      )
      call.on('error', (error) => resolve({ error, lost: call.reusedSocket && isReset(error) }))
      call.end(text)
    })
  }

  async #currentCredentials(): Promise<Credentials> {
    const { access, clock } = this.#options
    const known = this.#credentials
    if (known !== undefined && clock.monotonicMs() - known.at < CREDENTIALS_MS) return known.value
    const value = await access.credentials()
    this.#credentials = { value, at: clock.monotonicMs() }
    return value
  }

  #agentFor({ token: _token, ...tls }: Credentials): https.Agent | http.Agent {
    const of = JSON.stringify(tls)
    if (this.#agent?.of === of) return this.#agent.agent
    // Requests under way keep their connections; the old agent opens no new ones.
    const agent =
      this.server.protocol === 'https:'
        ? new https.Agent({
            keepAlive: true,
            timeout: IDLE_MS,
            ca: tls.ca,
            cert: tls.cert,
            key: tls.key,
            rejectUnauthorized: tls.verify ?? true,
            servername: tls.serverName,
          })
        : new http.Agent({ keepAlive: true, timeout: IDLE_MS })
    this.#agent = { agent, of }
    return agent
  }
}

/** Whether the state of things is the same after it was done twice. */
function isRepeatable({ method, patch }: ApiRequest): boolean {
  return method !== 'POST' && patch !== 'json'
}

/** What gives credentials may hang, and knows no signal. */
function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason)
    if (signal.aborted) onAbort()
    signal.addEventListener('abort', onAbort, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort))
  })
}

function isReset(error: Error): boolean {
  return 'code' in error && (error.code === 'ECONNRESET' || error.code === 'EPIPE')
}

function unreachable(title: string, error: unknown): ApiUnreachableError {
  if (error instanceof ApiUnreachableError) return error
  return new ApiUnreachableError(
    `${title}: ${error instanceof Error ? error.message : String(error)}`,
    { cause: error },
  )
}

function parseJson(text: string, { headers }: IncomingMessage, title: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    const what = `${headers['content-type'] ?? 'no content type'}: ${text.slice(0, 100)}`
    throw new ApiUnreachableError(`${title}: the answer is no JSON (${what})`, { cause: error })
  }
}

async function readAll(
  response: IncomingMessage,
  maxBytes: number,
  title: string,
): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of response) {
    if (!Buffer.isBuffer(chunk)) continue
    bytes += chunk.length
    if (bytes > maxBytes)
      throw new ApiUnreachableError(`${title}: the answer has more than ${maxBytes} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

async function* splitLines(
  response: IncomingMessage,
  maxBytes: number,
  title: string,
): AsyncGenerator<string, void, void> {
  let parts: Buffer[] = []
  let bytes = 0
  for await (const chunk of response) {
    if (!Buffer.isBuffer(chunk)) continue
    let rest = chunk
    for (let end = rest.indexOf(10); end >= 0; end = rest.indexOf(10)) {
      yield Buffer.concat([...parts, rest.subarray(0, end)]).toString('utf8')
      parts = []
      bytes = 0
      rest = rest.subarray(end + 1)
    }
    bytes += rest.length
    if (bytes > maxBytes)
      throw new ApiUnreachableError(`${title}: a line has more than ${maxBytes} bytes`)
    if (rest.length > 0) parts.push(rest)
  }
}

/** The Status of a refusal; where something between us and the server answered, what it said. */
async function failureOf(response: IncomingMessage): Promise<ApiStatus> {
  const status = response.statusCode ?? 0
  const retryAfterMs = retryAfterOf(response.headers)
  const text = await readAll(response, MAX_ERROR_BYTES, 'error').catch(() => '')
  try {
    const body: unknown = JSON.parse(text)
    if (
      typeof body === 'object' &&
      body !== null &&
      'message' in body &&
      typeof body.message === 'string'
    ) {
      const reason =
        'reason' in body && typeof body.reason === 'string'
          ? body.reason
          : (response.statusMessage ?? '')
      return { status, reason, message: body.message.slice(0, MAX_MESSAGE), retryAfterMs }
    }
  } catch {
    // Not JSON: shown as it is.
  }
  return { status, reason: response.statusMessage ?? '', message: text.slice(0, 500), retryAfterMs }
}

/** Seconds; the other form of the header, a date, API servers do not use. */
function retryAfterOf(headers: IncomingHttpHeaders): number | undefined {
  const seconds = Number(headers['retry-after'])
  return headers['retry-after'] !== undefined && Number.isFinite(seconds) && seconds >= 0
    ? seconds * 1000
    : undefined
}
