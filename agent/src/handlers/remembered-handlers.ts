import type { HandlerRegistry } from './handler-registry.js'
import { RemoteEndpoint } from './remote-endpoint.js'

/**
 * The registration of a handler at a socket of this node. A handler of the existing system does not
 * register again after a restart of the agent if no Configuration uses it.
 */
export interface RememberedHandler {
  readonly name: string
  /** The path of the handler's socket. */
  readonly socket: string
  readonly shared: boolean
  /** The user of the socket. Another user has to register. */
  readonly owner: string
}

/**
 * The registrations to remember. The next process at a network address could be any.
 * @param isolated the handlers that the agent starts itself
 */
export function rememberedHandlers(
  registry: HandlerRegistry,
  isolated: ReadonlySet<string> = new Set(),
): RememberedHandler[] {
  return registry.all.flatMap((endpoint) => {
    if (!(endpoint instanceof RemoteEndpoint) || endpoint.socket === undefined) return []
    const { name, socket, shared, owner } = endpoint
    return isolated.has(name) ? [] : { name, socket, shared, owner }
  })
}
