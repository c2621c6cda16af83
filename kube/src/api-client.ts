import { setMaxListeners } from 'node:events'
import type { Agent, IncomingHttpHeaders, IncomingMessage } from 'node:http'
import https from 'node:https'
import {
  type Clock,
  codeOf,
  isRecord,
  messageOf,
  mostJsonValues,
  untilAborted,
  valueAt,
  withTimeLimit,
} from '@akrijs/runtime'
import type { ClusterAccess, Credentials } from './cluster-credentials.js'
import { AnswerTooLongError, ApiError, type ApiStatus, ApiUnreachableError } from './errors.js'
import { ServerWarnings } from './server-warnings.js'

// On Node.js 24, an import of node:http loads undici too: 2 MB.
const http = process.getBuiltinModule('node:http')

export interface ApiClientOptions {
  readonly access: ClusterAccess
  readonly clock: Clock
  readonly userAgent: string
  /**
   * The time limit of an answer, from the call to its last byte, in milliseconds.
   * @default 30000
   */
  readonly timeoutMs?: number
  /**
   * Ends the requests that have no signal of their own.
   * @default only their time limit ends them
   */
  readonly signal?: AbortSignal
  /** The longest answer that the client reads, in bytes. @default 32 MiB */
  readonly maxBytes?: number
  /** The most JSON values of an answer. @default 1000000 */
  readonly maxValues?: number
  /** Called for every answer, for metrics. */
  onAnswer?(request: { readonly method: string; readonly status: number }): void
  /** Called for every request that fails, unless its caller has ended it. */
  onFailure?(
    request: Pick<ApiRequest, 'method' | 'path'>,
    error: ApiError | ApiUnreachableError,
  ): void
  /**
   * Called for a warning of the server, once for each text.
   * @param request the method and the path of the first answer with the text
   */
  onWarning(text: string, request: string): void
}

export type PatchType = 'json' | 'merge' | 'apply'

export interface ApiRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  readonly path: string
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>
  readonly body?: unknown
  /** The type of the body. @default JSON */
  readonly patch?: PatchType
  readonly signal?: AbortSignal | undefined
  /** @default the limit of the client */
  readonly timeoutMs?: number
}

const PATCH_TYPES: Readonly<Record<PatchType, string>> = {
  json: 'application/json-patch+json',
  merge: 'application/merge-patch+json',
  // JSON is YAML.
  apply: 'application/apply-patch+yaml',
}

/**
 * Credentials are read again after this time, in milliseconds. A token of a Pod is valid for at
 * least ten minutes.
 */
const CREDENTIALS_MS = 60_000
/** The most repetitions of a request that a busy server refused. */
const MAX_RETRIES = 5
/** The longest wait that a server can ask for, in milliseconds. */
const MAX_RETRY_AFTER_MS = 30_000
/**
 * The most bytes of an answer, or of a line of a watch. While a list is read, its bytes are in
 * memory about four times: as chunks, as a whole, as a text, and as objects.
 */
const MAX_BYTES = 32 * 1024 * 1024
/**
 * The most JSON values of an answer: each can take 90 bytes of memory, and three bytes of the
 * answer. An object of an API server, which has 1.5 MB at most, has fewer.
 */
const MAX_VALUES = 1_000_000
/** The most bytes of an error that the client reads: enough for a Status. */
const ERROR_BOUNDS: AnswerBounds = { maxBytes: 256 * 1024, maxValues: MAX_VALUES }
/** The longest message of an error, in characters: messages go to logs. */
const MAX_MESSAGE = 2000
/**
 * Idle connections are closed after this time, in milliseconds: before the server (90 s) or a proxy
 * closes them.
 */
const IDLE_MS = 30_000
/** For requests that only their time limit ends. */
const NEVER = new AbortController().signal

interface AnswerBounds {
  readonly maxBytes: number
  readonly maxValues: number
}

/** Connections with the same credentials. */
interface Connections {
  readonly agent: https.Agent | Agent
  /** The credentials that were compared last, and their part that TLS uses. */
  readonly credentials: Credentials
  readonly tls: string
}

/** A client of one API server, with connections that are reused. */
export class ApiClient {
  readonly #options: ApiClientOptions &
    AnswerBounds &
    Required<Pick<ApiClientOptions, 'timeoutMs' | 'signal'>>
  #credentials: { readonly value: Credentials; readonly at: number } | undefined
  readonly #warnings: ServerWarnings
  #connections: Connections | undefined

  constructor(options: ApiClientOptions) {
    const bounds: AnswerBounds = { maxBytes: MAX_BYTES, maxValues: MAX_VALUES }
    this.#options = { timeoutMs: 30_000, signal: NEVER, ...bounds, ...options }
    // A listener for each request under way.
    setMaxListeners(0, this.#options.signal)
    this.#warnings = new ServerWarnings(options.clock, options.onWarning)
  }

  get server(): URL {
    return this.#options.access.server
  }

  /**
   * Sends a request and reads the whole answer. The client repeats a request that a busy server
   * refused (429). The client also repeats a request that a reused connection lost before the
   * answer, if a second execution does no harm.
   * @throws ApiError, ApiUnreachableError
   */
  async request(request: ApiRequest): Promise<unknown> {
    const { timeoutMs = this.#options.timeoutMs, signal: outer = this.#options.signal } = request
    const title = `${request.method} ${request.path}`
    return withTimeLimit(timeoutMs, outer, async (signal) => {
      try {
        const response = await this.#open(request, signal)
        const text = await readAll(response, this.#options, title)
        return text === '' ? undefined : parseJson(text, response, title)
      } catch (error) {
        const failure =
          signal.aborted && !outer.aborted && !(error instanceof ApiError)
            ? new ApiUnreachableError(`${title}: no answer within ${timeoutMs} ms`, {
                cause: error,
              })
            : failureFrom(title, error)
        if (!outer.aborted) this.#options.onFailure?.(request, failure)
        throw failure
      }
    })
  }

  /**
   * Sends a request and yields the answer line by line as it comes. There is no time limit: the
   * signal ends the answer.
   * @param onOpen called when the headers of the answer have come
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
      const failure = failureFrom(title, error)
      // A server may end an answer whenever it wants to.
      if (response === undefined && !signal.aborted) this.#options.onFailure?.(request, failure)
      throw failure
    } finally {
      response?.destroy()
    }
  }

  /** Closes the connections. */
  close(): void {
    this.#connections?.agent.destroy()
    this.#connections = undefined
  }

  /** @returns the answer, if its status is a success */
  async #open(request: ApiRequest, signal: AbortSignal): Promise<IncomingMessage> {
    const { clock, onAnswer } = this.#options
    let renewed = false
    for (let attempt = 0; ; ) {
      const response = await this.#send(request, signal)
      const status = response.statusCode ?? 0
      onAnswer?.({ method: request.method, status })
      const { warning } = response.headersDistinct
      if (warning !== undefined) this.#warnings.read(warning, `${request.method} ${request.path}`)
      if (status >= 200 && status < 300) return response
      const failure = await failureOf(response)
      // The token may have been renewed after it was read.
      if (status === 401 && !renewed) {
        renewed = true
        this.#credentials = undefined
        continue
      }
      const refusal = new ApiError(`${request.method} ${request.path}`, failure)
      if (status !== 429 || attempt++ >= MAX_RETRIES) throw refusal
      const waitMs = Math.min(failure.retryAfterMs ?? 1000, MAX_RETRY_AFTER_MS)
      await clock.sleep(waitMs, signal).catch(() => {
        // The server has answered: a time limit that ends the wait does not say that.
        throw refusal
      })
    }
  }

  async #send(
    request: ApiRequest,
    signal: AbortSignal,
    isRepetition = false,
  ): Promise<IncomingMessage> {
    const { method, path, query = {}, body, patch } = request
    const { access, userAgent } = this.#options
    const credentials = await this.#currentCredentials(signal)
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
    const { request: start } = url.protocol === 'https:' ? https : http
    const call = start(url, { method, headers, agent, signal })
    try {
      return await new Promise((resolve, reject) =>
        call.on('response', resolve).on('error', reject).end(text),
      )
    } catch (error) {
      // Most likely the server closed the idle connection while the request was on its way. The
      // server may also have died after it executed the request (RFC 9110 9.2.2).
      const isLost = call.reusedSocket && ['ECONNRESET', 'EPIPE'].includes(String(codeOf(error)))
      if (!isLost || !isRepeatable(request) || isRepetition || signal.aborted) throw error
      return this.#send(request, signal, true)
    }
  }

  async #currentCredentials(signal: AbortSignal): Promise<Credentials> {
    const { access, clock } = this.#options
    const cached = this.#credentials
    if (cached !== undefined && clock.monotonicMs() - cached.at < CREDENTIALS_MS)
      return cached.value
    // A source of credentials may hang, and takes no signal.
    const value = await untilAborted(access.credentials(), signal)
    if (value === undefined) throw signal.reason
    this.#credentials = { value, at: clock.monotonicMs() }
    return value
  }

  #agentFor(credentials: Credentials): https.Agent | Agent {
    const before = this.#connections
    if (before?.credentials === credentials) return before.agent
    const { token: _token, ...options } = credentials
    const tls = JSON.stringify(options)
    if (before?.tls === tls) {
      this.#connections = { ...before, credentials }
      return before.agent
    }
    // Requests under way keep their connections; the old agent opens no new ones.
    const agent =
      this.server.protocol === 'https:'
        ? new https.Agent({
            keepAlive: true,
            timeout: IDLE_MS,
            ca: options.ca,
            cert: options.cert,
            key: options.key,
            rejectUnauthorized: options.verify ?? true,
            servername: options.serverName,
          })
        : new http.Agent({ keepAlive: true, timeout: IDLE_MS })
    this.#connections = { agent, credentials, tls }
    return agent
  }
}

/**
 * Whether a second execution of the request changes nothing more. A JSON patch that begins with a
 * test is for the object of before: after the first execution, the server refuses the second (422).
 */
function isRepeatable({ method, patch, body }: ApiRequest): boolean {
  if (patch === 'json') return Array.isArray(body) && valueAt(body[0], 'op') === 'test'
  return method !== 'POST'
}

function failureFrom(title: string, error: unknown): ApiError | ApiUnreachableError {
  if (error instanceof ApiError || error instanceof ApiUnreachableError) return error
  return new ApiUnreachableError(`${title}: ${messageOf(error)}`, { cause: error })
}

function parseJson(text: string, { headers }: IncomingMessage, title: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    const shown = `${headers['content-type'] ?? 'no content type'}: ${text.slice(0, 100)}`
    throw new ApiUnreachableError(`${title}: the answer is no JSON (${shown})`, { cause: error })
  }
}

function readAll(
  response: IncomingMessage,
  { maxBytes, maxValues }: AnswerBounds,
  title: string,
): Promise<string> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let bytes = 0
    // Not `for await`, which costs more than the rest of a small answer.
    response.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      chunks.push(chunk)
      if (bytes <= maxBytes) return
      reject(new AnswerTooLongError(`${title}: the answer has more than ${maxBytes} bytes`))
      response.destroy()
    })
    response.on('end', () => {
      const body = Buffer.concat(chunks)
      if (bytes > maxValues && mostJsonValues(body) > maxValues)
        reject(new AnswerTooLongError(`${title}: the answer has more than ${maxValues} values`))
      else resolve(body.toString('utf8'))
    })
    response.on('error', reject)
  })
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

/** The Status of a refusal; the text of the answer if a proxy refused the request. */
async function failureOf(response: IncomingMessage): Promise<ApiStatus> {
  const { statusCode: status = 0, statusMessage = '' } = response
  const retryAfterMs = retryAfterOf(response.headers)
  const text = await readAll(response, ERROR_BOUNDS, 'error').catch(() => '')
  try {
    const body: unknown = JSON.parse(text)
    if (isRecord(body) && typeof body.message === 'string') {
      const reason = typeof body.reason === 'string' ? body.reason : statusMessage
      return { status, reason, message: body.message.slice(0, MAX_MESSAGE), retryAfterMs }
    }
  } catch {
    // Not JSON: the text is shown as it is.
  }
  return { status, reason: statusMessage, message: text.slice(0, 500), retryAfterMs }
}

/** The header in seconds. API servers do not use its other form, a date. */
function retryAfterOf(headers: IncomingHttpHeaders): number | undefined {
  const seconds = Number(headers['retry-after'])
  return headers['retry-after'] !== undefined && Number.isFinite(seconds) && seconds >= 0
    ? seconds * 1000
    : undefined
}
