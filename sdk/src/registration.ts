import { access, constants } from 'node:fs/promises'
import { RegistrationClient } from '@akrijs/proto/discovery'
import {
  Backoff,
  type Clock,
  codeOf,
  connectProblem,
  type Logger,
  systemClock,
  untilAborted,
} from '@akrijs/runtime'
import { connectivityState, credentials, Metadata } from '@grpc/grpc-js'

export interface RegistrationOptions {
  readonly name: string
  /** The path of a unix socket, or `http://address:port`. */
  readonly endpoint: string
  readonly endpointType: 0 | 1
  readonly shared: boolean
  /** The path of `agent-registration.sock`. */
  readonly agentSocket: string
  readonly log: Logger
  readonly signal: AbortSignal
  readonly onRegistered: (registered: boolean) => void
  readonly clock?: Clock
}

/**
 * The waits between connection attempts, in milliseconds. An attempt at a unix socket is cheap, so
 * the waits are short.
 */
const RECONNECT = { initialMs: 100, ceilingMs: 1000 }
/** The waits after the agent refused a registration, in milliseconds. */
const REFUSED = { initialMs: 1000, ceilingMs: 30_000 }

/**
 * Keeps a handler registered until the signal is aborted. The connection stays open after the
 * registration. Its end tells an idle handler that the agent ended, and that the next agent needs a
 * new registration.
 */
export async function keepRegistered(options: RegistrationOptions): Promise<void> {
  const { log, signal, onRegistered, clock = systemClock } = options
  const reconnect = new Backoff(RECONNECT)
  const refused = new Backoff(REFUSED)
  /** The problem that the log has; undefined before the first. */
  let logged: string | undefined
  while (!signal.aborted) {
    const client = new RegistrationClient(
      `unix:${options.agentSocket}`,
      credentials.createInsecure(),
      {
        // An idle channel would close its connection, and miss the end of the agent.
        'grpc.client_idle_timeout_ms': 2 ** 31 - 1,
        'grpc.enable_retries': 0,
      },
    )
    let wait: number | undefined
    try {
      if (await connected(client, signal)) {
        await register(client, options)
        reconnect.reset()
        refused.reset()
        logged = undefined
        log.info({ endpoint: options.endpoint }, 'handler registered')
        onRegistered(true)
        await disconnected(client, signal)
        onRegistered(false)
        if (!signal.aborted) log.info({}, 'agent disconnected')
      } else {
        const { agentSocket } = options
        // The channel does not give the cause. A socket without a process can be opened, too.
        const code = await access(agentSocket, constants.W_OK).then(
          () => 'ECONNREFUSED',
          (error: unknown) => String(codeOf(error)),
        )
        if (logged !== code) {
          logged = code
          const fields = { agentSocket, problem: connectProblem(code) }
          // Before the agent starts, there is no socket.
          if (code === 'EACCES') log.warn(fields, 'agent not reached')
          else log.info(fields, 'agent not reached')
        }
      }
      wait = reconnect.next()
    } catch (error) {
      wait = refused.next()
      if (!signal.aborted) log.warn({ err: error, retryInMs: wait }, 'registration refused')
    } finally {
      client.close()
    }
    if (!signal.aborted) await clock.sleep(wait, signal).catch(() => undefined)
  }
}

/** Makes one connection attempt. @returns whether the channel has a connection */
async function connected(client: RegistrationClient, signal: AbortSignal): Promise<boolean> {
  const channel = client.getChannel()
  while (!signal.aborted) {
    const state = channel.getConnectivityState(true)
    if (state === connectivityState.READY) return true
    if (state === connectivityState.TRANSIENT_FAILURE || state === connectivityState.SHUTDOWN)
      return false
    await stateChange(client, state, signal)
  }
  return false
}

async function disconnected(client: RegistrationClient, signal: AbortSignal): Promise<void> {
  const channel = client.getChannel()
  while (!signal.aborted && channel.getConnectivityState(false) === connectivityState.READY) {
    await stateChange(client, connectivityState.READY, signal)
  }
}

async function stateChange(
  client: RegistrationClient,
  from: connectivityState,
  signal: AbortSignal,
): Promise<void> {
  const change = new Promise((resolve) =>
    client.getChannel().watchConnectivityState(from, Number.POSITIVE_INFINITY, resolve),
  )
  await untilAborted(change, signal)
}

/** The time for the agent's answer, in milliseconds. */
const ANSWER_MS = 10_000

function register(
  client: RegistrationClient,
  { name, endpoint, endpointType, shared, signal }: RegistrationOptions,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const deadline = systemClock.wallMs() + ANSWER_MS
    const request = { name, endpoint, endpointType, shared }
    const call = client.registerDiscoveryHandler(request, new Metadata(), { deadline }, (error) => {
      signal.removeEventListener('abort', cancel)
      if (error) reject(error)
      else resolve()
    })
    const cancel = () => call.cancel()
    signal.addEventListener('abort', cancel, { once: true })
  })
}
