// The bounds of what comes from outside, each with its reason.

// The registration of handlers. Any process with the directory of handlers can register.
/** Endpoints of handlers: each costs a stream for each Configuration that names its handler. */
export const MAX_ENDPOINTS = 256
/** Connections to the registration socket: two for each endpoint. */
export const MAX_REGISTRATION_CONNECTIONS = 512
/** Registrations that wait for the Pod with their address: each keeps a call in memory. */
export const MAX_WAITING_REGISTRATIONS = 64
