import net from 'node:net'
import { messageOf, systemClock } from '@akrijs/sdk'
import { OpcuaTimeoutError, OpcuaUnreachableError } from '../errors.js'
import { Conversation } from './conversation.js'
import type { DiscoveryService } from './discovery-services.js'
import { UA_TCP_LIMITS, type UaTcpLimits } from './limits.js'

/** Who is asked. */
export interface Target {
  /** Where it is called; of several the first that takes the call. */
  readonly addresses: readonly string[]
  readonly port: number
  /** What it is called by. */
  readonly endpointUrl: string
}

export interface CallOptions {
  readonly signal: AbortSignal
  /** How long a connection may take to come about, in milliseconds. @default 3000 */
  readonly connectMs?: number
  /** How long all may take, in milliseconds, however busy the server keeps us. @default 5000 */
  readonly totalMs?: number
  /** @default UA_TCP_LIMITS */
  readonly limits?: Partial<UaTcpLimits>
}

/**
 * Asks a server one question, on a connection of its own. The connection is gone when the promise settles.
 * @throws OpcuaUnreachableError, OpcuaTimeoutError, OpcuaProtocolError, OpcuaServiceError; the signal's reason when it is aborted
 */
export async function callService<Answer>(
  service: DiscoveryService<Answer>,
  target: Target,
  options: CallOptions,
): Promise<Answer> {
  const until = systemClock.monotonicMs() + (options.totalMs ?? 5000)
  let failure: unknown = new OpcuaUnreachableError('there is no address to call')
  for (const address of target.addresses) {
    const leftMs = until - systemClock.monotonicMs()
    if (leftMs <= 0) break
    try {
      return await askAt(address, leftMs, service, target, options)
    } catch (error) {
      // Who has taken the call and fails would fail again under its next address.
      if (!(error instanceof NoConnection)) throw error
      failure = error.failure
    }
  }
  throw failure
}

/** A call that was not taken: another address may take it. */
class NoConnection {
  readonly failure: OpcuaUnreachableError | OpcuaTimeoutError

  constructor(failure: OpcuaUnreachableError | OpcuaTimeoutError) {
    this.failure = failure
  }
}

function askAt<Answer>(
  address: string,
  leftMs: number,
  service: DiscoveryService<Answer>,
  { port, endpointUrl }: Target,
  { signal, connectMs = 3000, limits = {} }: CallOptions,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason)
    const now = systemClock.wallMs()
    const where = net.isIPv6(address) ? `[${address}]:${port}` : `${address}:${port}`
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
    const onAbort = () => fail(signal.reason)
    const connectTimer = setTimeout(
      () =>
        fail(
          new NoConnection(
            new OpcuaTimeoutError(`${where} has not taken the call within ${connectMs} ms`),
          ),
        ),
      Math.min(connectMs, leftMs),
    )
    const totalTimer = setTimeout(() => {
      const what = `${where} has not answered in full within ${leftMs} ms: ${socket.bytesRead} bytes came, still missing is ${conversation.waitingFor}`
      fail(new OpcuaTimeoutError(what))
    }, leftMs)
    signal.addEventListener('abort', onAbort, { once: true })

    socket.on('connect', () => {
      connected = true
      clearTimeout(connectTimer)
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
      const error = new OpcuaUnreachableError(`${where}: ${messageOf(cause)}`, { cause })
      outcome ??= { error: connected ? error : new NoConnection(error) }
    })
    socket.on('close', () => {
      clearTimeout(connectTimer)
      clearTimeout(totalTimer)
      signal.removeEventListener('abort', onAbort)
      if (outcome === undefined)
        reject(
          new OpcuaUnreachableError(
            `${where} hung up; still missing was ${conversation.waitingFor}`,
          ),
        )
      else if ('answer' in outcome) resolve(outcome.answer)
      else reject(outcome.error)
    })
  })
}
