import { isIPv6 } from 'node:net'
import { type AkriError, InvalidOptionError } from '@akrijs/runtime'
import { type DiscoveryHandler, isDiscoveryHandler } from '@akrijs/runtime/handler'
import type { HandlerServer, ServeOptions } from './serve-options.js'

/**
 * Serves one or more handlers to the agent: on a unix socket `<directory>/<name>.sock`, or, with `podIp`, on the network.
 * Keeps them registered with the agent for as long as it runs, also over restarts of the agent. Resolves as soon as they
 * can be asked; the agent need not be there yet.
 *
 * @throws AkriError where an option is missing or wrong, or a socket or port cannot be had
 */
export async function serve(
  handlers: DiscoveryHandler | readonly DiscoveryHandler[],
  options: ServeOptions = {},
): Promise<HandlerServer> {
  const list = isDiscoveryHandler(handlers) ? [handlers] : handlers
  const environment = options.environment ?? process.env
  const directory = options.directory ?? environment.DISCOVERY_HANDLERS_DIRECTORY
  if (directory === undefined || directory === '') {
    throw invalid(
      'no directory for sockets: set DISCOVERY_HANDLERS_DIRECTORY, as the agent has it (/var/lib/akri in the chart)',
    )
  }
  const podIp = options.podIp ?? environment.POD_IP
  const twice = list.find(
    (handler, index) => list.findIndex(({ name }) => name === handler.name) !== index,
  )
  if (list.length === 0) throw invalid('there is no handler to serve')
  if (twice !== undefined) throw invalid(`two handlers have the name ${twice.name}`)
  // gRPC, logs and metrics are loaded here, so that a module that only defines a handler stays light.
  const { startServing } = await import('./serving.js')
  return startServing(list, {
    directory,
    network:
      podIp === undefined || podIp === ''
        ? undefined
        : { host: isIPv6(podIp) ? `[${podIp}]` : podIp, port: options.port ?? 10_000 },
    metricsPort: options.metricsPort ?? portOf(environment.METRICS_PORT),
    log: options.log,
    signal: options.signal,
  })
}

function portOf(text: string | undefined): number | undefined {
  if (text === undefined || text === '') return undefined
  const port = Number(text)
  if (/^\d{1,5}$/.test(text) && port <= 65_535) return port
  throw invalid(`METRICS_PORT is ${JSON.stringify(text)}; it must be a port, 0 to 65535`)
}

function invalid(message: string): AkriError {
  return new InvalidOptionError(message)
}
