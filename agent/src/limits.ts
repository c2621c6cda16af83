// The limits of the agent, each with its reason. docs/security.md has them in one table.

// The registration of handlers. Any process with the directory of handlers can register.
/** Endpoints of handlers: each costs a stream for each Configuration that names its handler. */
export const MAX_ENDPOINTS = 256
/** Connections to the registration socket: two for each endpoint. */
export const MAX_REGISTRATION_CONNECTIONS = 512
/** Registrations that wait for the Pod with their address: each keeps a call in memory. */
export const MAX_WAITING_REGISTRATIONS = 64

/** How many Secrets and ConfigMaps are sources of properties. */
export interface SourceBounds {
  readonly perAgent: number
  /** For all Configurations of one namespace, whichever namespaces the objects are in. */
  readonly perNamespace: number
}

/** The agent and the API server keep a connection for each watched object, for each node. */
export const SOURCE_BOUNDS: SourceBounds = { perAgent: 500, perNamespace: 100 }
