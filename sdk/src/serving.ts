import { setMaxListeners } from 'node:events'
import { access, chmod, constants, stat } from 'node:fs/promises'
import path from 'node:path'
import {
  aborted,
  checkSocketPath,
  codeOf,
  type Logger,
  makeRoomForSocket,
  SocketUnusableError,
  systemClock,
} from '@akrijs/runtime'
import {
  BugCounter,
  createContext,
  createLogger,
  type ProgramContext,
} from '@akrijs/runtime/program'
import { AGENT_SOCKET } from './agent-socket.js'
import type { DiscoveryHandler } from './handler/handler.js'
import { serveDiscovery } from './handler-server.js'
import { handlerSocket } from './handler-socket.js'
import { ServeMetrics } from './metrics.js'
import { keepRegistered } from './registration.js'
import type {
  HandlerServer,
  ServedHandlers,
  ServeOptions,
  ServingOptions,
} from './serve-options.js'

/** Serves handlers until `close` is called or the signal is aborted. */
export async function serveUntilClosed(
  handlers: readonly DiscoveryHandler[],
  serving: ServingOptions,
  { log, signal }: Pick<ServeOptions, 'log' | 'signal'>,
): Promise<HandlerServer> {
  const stop = new AbortController()
  const bugs = new BugCounter()
  const context = createContext({
    log: log ?? createLogger('akri-handler', { onBug: () => bugs.count() }),
    signal: stop.signal,
    bugs,
  })
  if (signal !== undefined) void aborted(signal, stop.signal).then(() => stop.abort())
  try {
    const served = await startServing(handlers, serving, context)
    const closed = aborted(stop.signal).then(() => context.closer.close())
    const close = () => {
      stop.abort()
      return closed
    }
    return { ...served, close, closed }
  } catch (error) {
    await context.closer.close()
    throw error
  }
}

/** Starts to serve handlers; the closer of the context ends that. */
export async function startServing(
  handlers: readonly DiscoveryHandler[],
  { directory, network, metricsPort }: ServingOptions,
  {
    log,
    closer,
    signal,
    serveHealth,
  }: Pick<ProgramContext, 'log' | 'closer' | 'signal' | 'serveHealth'>,
): Promise<ServedHandlers> {
  const agentSocket = path.join(directory, AGENT_SOCKET)
  checkSocketPath(agentSocket)
  const names = handlers.map(({ name }) => name)
  const metrics = new ServeMetrics(names)
  const unregistered = new Set(names)
  const ready = () =>
    unregistered.size === 0
      ? undefined
      : `not registered with the agent: ${[...unregistered].join(', ')}`
  const healthPort =
    metricsPort === undefined
      ? undefined
      : await serveHealth({
          port: metricsPort,
          ready,
          metrics: () => metrics.registry.metrics(),
        })
  const stop = new AbortController()
  // The registration of each handler listens to the signal, and Node.js would warn of a leak.
  setMaxListeners(0, stop.signal)
  const endpoints = new Map<string, string>()
  for (const [index, handler] of handlers.entries()) {
    const { name, shared } = handler
    const common = { handler, log: log.child({ handler: name }), metrics: metrics.of(name) }
    let socket = ''
    if (network === undefined) {
      await opened(directory, { log, signal })
      if (signal.aborted) break
      socket = await handlerSocket(directory, name)
      await makeRoomForSocket(socket)
    }
    const address =
      network === undefined ? `unix:${socket}` : `${network.host}:${portAt(network.port, index)}`
    const server = await serveDiscovery({ ...common, address })
    // Closing removes the socket's file before the last streams end. The path can belong to another
    // process then.
    closer.add(() => server.close())
    // The agent can run as another user of the same group; other users have no access.
    if (network === undefined) await chmod(socket, 0o660)
    const endpoint = network === undefined ? socket : `http://${network.host}:${server.port}`
    endpoints.set(name, endpoint)
    const registration = keepRegistered({
      name,
      shared,
      endpoint,
      endpointType: network === undefined ? 0 : 1,
      agentSocket,
      log: common.log,
      signal: stop.signal,
      onRegistered(registered) {
        common.metrics.registered.set(registered ? 1 : 0)
        if (registered) common.metrics.registrations.inc()
        if (registered) unregistered.delete(name)
        else unregistered.add(name)
      },
    })
    closer.add(() => {
      stop.abort()
      return registration
    })
  }
  return { endpoints, metricsPort: healthPort }
}

/** @param first 0 for a free port */
function portAt(first: number, index: number): number {
  return first === 0 ? 0 : first + index
}

/** How often a directory is tried that the agent has not opened yet, in milliseconds. */
const OPENED_MS = 1000

/**
 * Waits until this process may make sockets in the directory: without being root, it may do so when
 * the agent has opened the directory to its group.
 */
async function opened(
  directory: string,
  { log, signal }: { readonly log: Logger; readonly signal: AbortSignal },
): Promise<void> {
  const found = await stat(directory).catch(() => undefined)
  if (found?.isDirectory() === false)
    throw new SocketUnusableError(
      `${directory} is not a directory; give the directory of the agent's ${AGENT_SOCKET}`,
    )
  let isLogged = false
  while (!signal.aborted) {
    const denied = await access(directory, constants.W_OK | constants.X_OK).then(
      () => false,
      (error: unknown) => codeOf(error) === 'EACCES',
    )
    if (!denied) return
    if (!isLogged) log.warn({ directory }, 'directory of sockets not writable: agent awaited')
    isLogged = true
    await systemClock.sleep(OPENED_MS, signal).catch(() => undefined)
  }
}
