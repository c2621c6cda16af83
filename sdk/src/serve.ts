import { isIPv6 } from 'node:net'
import path from 'node:path'
import { fieldOf, InvalidOptionError, shorten } from '@akrijs/runtime'
import { AGENT_SOCKET } from './agent-socket.js'
import { InvalidHandlerError } from './handler/errors.js'
import { type DiscoveryHandler, isDiscoveryHandler } from './handler/handler.js'
import type { HandlerServer, ServeOptions, ServingOptions } from './serve-options.js'

/**
 * Serves one or more handlers to the agent: on a unix socket `<directory>/<name>.sock`, or, with
 * `podIp`, on the network. Keeps the handlers registered until it is closed, also when the agent
 * restarts. Resolves as soon as the handlers answer; the agent can start later.
 *
 * @throws InvalidHandlerError if a handler is not the result of `defineDiscoveryHandler`
 * @throws AkriError if an option is missing or wrong, or a socket or port cannot be used
 *
 * @example
 * const server = await serve(handler, { directory: '/var/lib/akri' })
 * await server.closed
 */
export async function serve(
  handlers: DiscoveryHandler | readonly DiscoveryHandler[],
  options: ServeOptions = {},
): Promise<HandlerServer> {
  const list = handlerList(handlers)
  const serving = servingOptions(list, options)
  // gRPC, logs and metrics are loaded here, so that a module that only defines a handler needs less
  // memory.
  const { serveUntilClosed } = await import('./serving.js')
  return serveUntilClosed(list, serving, options)
}

/** At run time the program of a handler is JavaScript. */
function handlerList(handlers: unknown): readonly DiscoveryHandler[] {
  const list: unknown = isDiscoveryHandler(handlers) ? [handlers] : handlers
  if (Array.isArray(list) && list.every(isDiscoveryHandler)) return list
  const wrong: unknown = Array.isArray(list) ? list.find((each) => !isDiscoveryHandler(each)) : list
  const fix = isDiscoveryHandler(fieldOf(wrong, 'default')) ? '; give its default export' : ''
  throw new InvalidHandlerError(
    'serve takes the result of defineDiscoveryHandler, or an array of such results; this is ' +
      `${Array.isArray(list) ? 'an array with ' : ''}${shorten(wrong)}${fix}`,
  )
}

/** Checks the options, and completes them from the environment. @throws InvalidOptionError */
export function servingOptions(
  handlers: readonly DiscoveryHandler[],
  options: ServeOptions,
): ServingOptions {
  const environment = options.environment ?? process.env
  const directory = options.directory ?? environment.DISCOVERY_HANDLERS_DIRECTORY
  if (directory === undefined || directory === '') {
    throw new InvalidOptionError(
      'no directory for sockets: set DISCOVERY_HANDLERS_DIRECTORY, as the agent has it ' +
        '(/var/lib/akri in the chart)',
    )
  }
  if (handlers.length === 0) throw new InvalidOptionError('there is no handler to serve')
  const names = handlers.map(({ name }) => name)
  const duplicate = names.find((name, index) => names.indexOf(name) !== index)
  if (duplicate !== undefined)
    throw new InvalidOptionError(`two handlers have the name ${duplicate}`)
  const reserved = names.find((name) => `${name}.sock` === AGENT_SOCKET)
  if (reserved !== undefined)
    throw new InvalidOptionError(
      `a handler ${reserved} would serve at the socket of the agent, ${AGENT_SOCKET}; ` +
        'give the handler another name',
    )
  const podIp = options.podIp ?? environment.POD_IP
  return {
    // The agent dials the sockets from another working directory.
    directory: path.resolve(directory),
    network:
      podIp === undefined || podIp === ''
        ? undefined
        : {
            host: isIPv6(podIp) ? `[${podIp}]` : podIp,
            port: firstPort(portOf('port', options.port) ?? 10_000, handlers.length),
          },
    metricsPort:
      portOf('metricsPort', options.metricsPort) ??
      portOf('METRICS_PORT', environment.METRICS_PORT),
  }
}

/** A port, also as the text of a variable: at run time the program of a handler is JavaScript. */
function portOf(name: string, value: unknown): number | undefined {
  if (value === undefined || value === null || value === '') return undefined
  const port = Number(value)
  if (/^\d{1,5}$/.test(String(value)) && port <= MAX_PORT) return port
  throw new InvalidOptionError(`${name} is ${shorten(value)}; it must be a port, 0 to ${MAX_PORT}`)
}

const MAX_PORT = 65_535

/** Each further handler takes the next port. */
function firstPort(port: number, count: number): number {
  if (port + count - 1 <= MAX_PORT) return port
  throw new InvalidOptionError(
    `port is ${port}, and ${count} handlers take a port each; the last port is ${MAX_PORT}`,
  )
}
