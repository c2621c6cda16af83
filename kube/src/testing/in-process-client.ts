import type { Clock } from '@akrijs/runtime'
import { ApiClient, type ApiRequest } from '../api-client.js'
import { ApiUnreachableError } from '../errors.js'
import type { StoreRequest } from './object-store.js'

type Serve = (request: StoreRequest) => Promise<unknown>
/** Opens a watch, and calls back for each event until the returned function is called. */
type ServeWatch = (request: StoreRequest, onEvent: (event: unknown) => void) => Promise<() => void>

/** A client that asks functions in place of a server. */
export class InProcessClient extends ApiClient {
  readonly #serve: Serve
  readonly #serveWatch: ServeWatch

  constructor(clock: Clock, serve: Serve, serveWatch: ServeWatch = () => new Promise(() => {})) {
    super({
      access: { server: new URL('http://x'), credentials: async () => ({}) },
      clock,
      userAgent: 'test',
      onWarning: () => undefined,
    })
    this.#serve = serve
    this.#serveWatch = serveWatch
  }

  override request(request: ApiRequest): Promise<unknown> {
    return untilAborted(() => this.#serve(storeRequest(request)), request.signal)
  }

  override async *lines(
    request: ApiRequest,
    signal: AbortSignal,
    onOpen?: () => void,
  ): AsyncGenerator<string, void, void> {
    const events: unknown[] = []
    let onEvent = () => {}
    let stop = () => {}
    const open = async () => {
      stop = await this.#serveWatch(storeRequest(request), (event) => {
        events.push(event)
        onEvent()
      })
      // The reader may have gone in the meantime.
      if (signal.aborted) stop()
    }
    try {
      await untilAborted(open, signal)
      onOpen?.()
      for (;;) {
        const came = new Promise<void>((resolve) => {
          onEvent = resolve
        })
        for (const event of events.splice(0)) yield JSON.stringify(event)
        await untilAborted(() => came, signal)
      }
    } finally {
      stop()
    }
  }
}

function storeRequest({ method, path, query = {}, body, patch }: ApiRequest): StoreRequest {
  const parameters = Object.entries(query).flatMap(([name, value]): [string, string][] =>
    value === undefined ? [] : [[name, String(value)]],
  )
  const search = new URLSearchParams(parameters)
  const manager = search.get('fieldManager') ?? 'test'
  return { method, path, query: search, body: structuredClone(body), patch, manager }
}

function untilAborted<T>(start: () => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(new ApiUnreachableError('aborted'))
    if (signal?.aborted) return onAbort()
    signal?.addEventListener('abort', onAbort, { once: true })
    start()
      .then(resolve, reject)
      .finally(() => signal?.removeEventListener('abort', onAbort))
  })
}
