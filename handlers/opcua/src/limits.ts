// What any machine of the network can make the handler keep and do (docs/security.md).

/** Servers of a Configuration. */
export const MAX_SERVERS = 1000

/** Announced discovery servers that are called; those that have answered come first. */
export const MAX_DISCOVERY_SERVERS = 100
