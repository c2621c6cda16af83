import { chmod } from 'node:fs/promises'
import path from 'node:path'
import { checkSocketPath, type Logger, makeRoomForSocket } from '@akrijs/runtime'
import type { DiscoveryHandler } from '@akrijs/runtime/handler'
import { createLogger, type HealthServer, serveHealth } from '@akrijs/runtime/program'
import { serveDiscovery } from './handler-server.js'
import { ServeMetrics } from './metrics.js'
import { AGENT_SOCKET, keepRegistered } from './registration.js'
import type { HandlerServer } from './serve-options.js'

/** What {@link serve} found in its options and the environment. */
export interface ServingOptions {
  readonly directory: string
  readonly network: { readonly host: string; readonly port: number } | undefined
  readonly metricsPort: number | undefined
  readonly log: Logger | undefined
  readonly signal: AbortSignal | undefined
}

export async function startServing(
  handlers: readonly DiscoveryHandler[],
  options: ServingOptions,
): Promise<HandlerServer> {
  const { directory, network, metricsPort, log = createLogger('akri-handler') } = options
  const stop = new AbortController()
  const names = handlers.map(({ name }) => name)
  const metrics = new ServeMetrics(names)
  const waitingFor = new Set(names)
  const endpoints = new Map<string, string>()
  // In the order in which they are to be closed.
  const open: (() => Promise<void>)[] = []
  let health: HealthServer | undefined
  const closeAll = async () => {
    stop.abort()
    for (const close of open.splice(0)) await close()
    await health?.close()
  }

  try {
    checkSocketPath(path.join(directory, AGENT_SOCKET))
    health =
      metricsPort === undefined ? undefined : await serveHealthOf(metricsPort, waitingFor, metrics)
    for (const [index, handler] of handlers.entries()) {
      const running = await startHandler(handler, {
        directory,
        network: network && { ...network, port: network.port + index },
        log,
        metrics,
      })
      endpoints.set(handler.name, running.endpoint)
      const registration = keepRegistered({
        name: handler.name,
        shared: handler.shared,
        endpoint: running.endpoint,
        endpointType: network ? 1 : 0,
        agentSocket: path.join(directory, AGENT_SOCKET),
        log: log.child({ handler: handler.name }),
        signal: stop.signal,
        onRegistered(registered) {
          metrics.of(handler.name).registered.set(registered ? 1 : 0)
          if (registered) metrics.of(handler.name).registrations.inc()
          if (registered) waitingFor.delete(handler.name)
          else waitingFor.add(handler.name)
        },
      })
      open.push(() => registration, running.close)
    }

    let closing: Promise<void> | undefined
    const closed = new Promise<void>((resolve, reject) => {
      stop.signal.addEventListener('abort', () => closing?.then(resolve, reject), { once: true })
    })
    const close = () => {
      // Deferred, so that `closing` is set when the signal fires.
      closing ??= Promise.resolve().then(closeAll)
      return closing
    }
    if (options.signal?.aborted) void close()
    else options.signal?.addEventListener('abort', () => void close(), { once: true })
    return { endpoints, metricsPort: health?.port, close, closed }
  } catch (error) {
    await closeAll()
    throw error
  }
}

interface RunningHandler {
  readonly endpoint: string
  close(): Promise<void>
}

async function startHandler(
  handler: DiscoveryHandler,
  {
    directory,
    network,
    log,
    metrics,
  }: Pick<ServingOptions, 'directory' | 'network'> & { log: Logger; metrics: ServeMetrics },
): Promise<RunningHandler> {
  const common = {
    handler,
    log: log.child({ handler: handler.name }),
    metrics: metrics.of(handler.name),
  }
  if (network) {
    const server = await serveDiscovery({ ...common, address: `${network.host}:${network.port}` })
    return { endpoint: `http://${network.host}:${server.port}`, close: () => server.close() }
  }
  const socket = path.join(directory, `${handler.name}.sock`)
  await makeRoomForSocket(socket)
  const server = await serveDiscovery({ ...common, address: `unix:${socket}` })
  // The agent may run as another user of the same group; nobody else has business here.
  await chmod(socket, 0o660)
  // Closing removes the socket's file, before the last streams have ended. By then the path may be somebody else's.
  return { endpoint: socket, close: () => server.close() }
}

function serveHealthOf(
  port: number,
  waitingFor: ReadonlySet<string>,
  metrics: ServeMetrics,
): Promise<HealthServer> {
  return serveHealth({
    port,
    ready: () =>
      waitingFor.size === 0
        ? undefined
        : `not registered with the agent: ${[...waitingFor].join(', ')}`,
    metrics: () => metrics.registry.metrics(),
  })
}
