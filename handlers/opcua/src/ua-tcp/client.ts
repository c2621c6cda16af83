import net from 'node:net'
import { type Clock, messageOf, systemClock } from '@akrijs/sdk'
import { OpcuaTimeoutError, OpcuaUnreachableError } from '../errors.js'
import { Conversation } from './conversation.js'
import type { DiscoveryService } from './discovery-services.js'
import { UA_TCP_LIMITS, type UaTcpLimits } from './limits.js'

/** The server that a service call goes to. */
export interface Target {
  /** Tried in order until one accepts the connection. */
  readonly addresses: readonly string[]
  readonly port: number
  /** The URL that the server receives. */
  readonly endpointUrl: string
}

/** The default time limit of a call, in milliseconds. */
export const CALL_MS = 5000

export interface CallOptions {
  readonly signal: AbortSignal
  /** The time limit for the connection, in milliseconds. @default 3000 */
  readonly connectMs?: number
  /** The time limit for the whole call, in milliseconds. @default 5000 */
  readonly totalMs?: number
  /** The clock of the time limits. @default systemClock */
  readonly clock?: Clock
  /** @default UA_TCP_LIMITS */
  readonly limits?: Partial<UaTcpLimits>
}

/** The time limits of a call, and their clock. */
export type CallTimeouts = Pick<CallOptions, 'connectMs' | 'totalMs' | 'clock'>

/**
 * Calls a service of a server over a new connection, which is closed before the promise settles.
 * @throws OpcuaUnreachableError, OpcuaTimeoutError, OpcuaProtocolError, OpcuaServiceError; the
 * reason of the signal when the signal is aborted
 */
export async function callService<Answer>(
  service: DiscoveryService<Answer>,
  target: Target,
  options: CallOptions,
): Promise<Answer> {
  const { totalMs = CALL_MS, clock = systemClock } = options
  const deadline = clock.monotonicMs() + totalMs
  let failure: unknown = new OpcuaUnreachableError('the server has no address')
  for (const address of target.addresses) {
    const leftMs = deadline - clock.monotonicMs()
    if (leftMs <= 0) break
    try {
      return await callAt(address, leftMs, service, target, { ...options, totalMs, clock })
    } catch (error) {
      // A server that accepted the connection would fail at its other addresses too.
      if (!(error instanceof ConnectionFailure)) throw error
      failure = error.error
    }
  }
  throw failure
}

/** No connection at this address: another address may work. */
class ConnectionFailure {
  readonly error: OpcuaUnreachableError | OpcuaTimeoutError

  constructor(error: OpcuaUnreachableError | OpcuaTimeoutError) {
    this.error = error
  }
}

function callAt<Answer>(
  address: string,
  leftMs: number,
  service: DiscoveryService<Answer>,
  { port, endpointUrl }: Target,
  {
    signal,
    connectMs = 3000,
    totalMs,
    clock,
    limits = {},
  }: CallOptions & Required<Pick<CallOptions, 'totalMs' | 'clock'>>,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason)
    const now = systemClock.wallMs()
    const peer = net.isIPv6(address) ? `[${address}]:${port}` : `${address}:${port}`
    const conversation = new Conversation({
      endpointUrl,
      request: service.encodeRequest(endpointUrl, now),
      now,
      limits,
    })
    const socket = net.connect({ host: address, port, noDelay: true })
    let connected = false
    let outcome: { readonly answer: Answer } | { readonly error: unknown } | undefined

    const fail = (error: unknown) => {
      outcome ??= { error }
      socket.destroy()
    }
    const closed = new AbortController()
    const after = (ms: number, action: () => void) =>
      void clock.sleep(ms, closed.signal).then(action, () => undefined)
    after(Math.min(connectMs, leftMs), () => {
      const error = new OpcuaTimeoutError(`${peer} did not accept a connection in ${connectMs} ms`)
      if (!connected) fail(new ConnectionFailure(error))
    })
    after(leftMs, () => {
      const progress = `received ${socket.bytesRead} bytes, still missing ${conversation.missing}`
      // The same text for each call: reports of the error must not change in each round.
      const message = `${peer} did not complete its answer in ${totalMs} ms: ${progress}`
      fail(new OpcuaTimeoutError(message))
    })
    signal.addEventListener('abort', () => fail(signal.reason), { signal: closed.signal })

    socket.on('connect', () => {
      connected = true
      socket.write(conversation.start())
    })
    socket.on('data', (bytes) => {
      if (outcome !== undefined) return
      try {
        for (const { send, response } of conversation.receive(bytes)) {
          if (response === undefined) {
            socket.write(send)
            continue
          }
          outcome = { answer: service.decodeResponse(response, { ...UA_TCP_LIMITS, ...limits }) }
          socket.end(send, () => socket.destroy())
        }
      } catch (error) {
        fail(error)
      }
    })
    socket.on('error', (cause) => {
      const error = new OpcuaUnreachableError(`${peer}: ${messageOf(cause)}`, { cause })
      outcome ??= { error: connected ? error : new ConnectionFailure(error) }
    })
    socket.on('close', () => {
      closed.abort()
      if (outcome === undefined)
        reject(
          new OpcuaUnreachableError(
            `${peer} closed the connection, still missing ${conversation.missing}`,
          ),
        )
      else if ('answer' in outcome) resolve(outcome.answer)
      else reject(outcome.error)
    })
  })
}
