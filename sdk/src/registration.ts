import { RegistrationClient } from '@akrijs/proto/discovery'
import { Backoff, type Clock, type Logger, systemClock } from '@akrijs/runtime'
import { connectivityState, credentials, Metadata } from '@grpc/grpc-js'

/** The agent's socket in the directory that it shares with handlers. */
export const AGENT_SOCKET = 'agent-registration.sock'

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

/** A connection attempt to a unix socket costs nothing: an agent that comes back is met within this, in milliseconds. */
const RECONNECT = { initialMs: 100, ceilingMs: 1000 }
/** An agent that refuses will hardly accept a moment later. */
const REFUSED = { initialMs: 1000, ceilingMs: 30_000 }

/**
 * Keeps a handler registered until the signal is aborted. The connection is held open after the registration: its end is
 * how an idle handler learns that the agent went away, and that the one that comes next does not know it.
 */
export async function keepRegistered(options: RegistrationOptions): Promise<void> {
  const { log, signal, onRegistered, clock = systemClock } = options
  const reconnect = new Backoff(RECONNECT)
  const refused = new Backoff(REFUSED)
  let waiting = false
  while (!signal.aborted) {
    const client = new RegistrationClient(
      `unix:${options.agentSocket}`,
      credentials.createInsecure(),
      {
        // Never idle: an idle channel drops its connection, and with it the news that the agent is gone.
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
        waiting = false
        log.info({ endpoint: options.endpoint }, 'registered')
        onRegistered(true)
        await disconnected(client, signal)
        onRegistered(false)
        if (!signal.aborted) log.info({}, 'the agent is gone, waiting for it')
      } else if (!waiting) {
        waiting = true
        log.info({ agentSocket: options.agentSocket }, 'waiting for the agent')
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

/** Whether the channel got a connection, at its first attempt. */
async function connected(client: RegistrationClient, signal: AbortSignal): Promise<boolean> {
  const channel = client.getChannel()
  for (
    let state = channel.getConnectivityState(true);
    !signal.aborted;
    state = channel.getConnectivityState(true)
  ) {
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

function stateChange(
  client: RegistrationClient,
  from: connectivityState,
  signal: AbortSignal,
): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      signal.removeEventListener('abort', done)
      resolve()
    }
    signal.addEventListener('abort', done, { once: true })
    client.getChannel().watchConnectivityState(from, Number.POSITIVE_INFINITY, done)
  })
}

/** How long an agent may take to answer, in milliseconds. */
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
