import type { HttpLimits } from '@akrijs/runtime/http'

/** The longest body, in bytes: the old and the new object, each of at most 1.5 MiB in etcd. */
export const MAX_BODY = 4 * 1024 * 1024
/**
 * The most JSON values of a review. A value takes up to four microseconds. A review has the old and
 * the new object, and each lists its fields again in `managedFields`: an object of 10,000 values
 * still fits.
 */
export const MAX_VALUES = 50_000
/** The memory of a JSON value, in bytes. */
export const VALUE_BYTES = 50
/** The memory of all reviews, in bytes. Six of the most values fit: they take about a second. */
export const MAX_MEMORY = 16 * 1024 * 1024

/**
 * An API server opens a connection for each review at the same time (it writes 200 objects at once
 * by default), and keeps up to 25 idle ones for 90 seconds (HTTP/1.1: it uses no HTTP/2 for
 * webhooks). It may send a request at any time until then, so the webhook keeps them longer. In
 * some clusters the requests of all API servers, or of all Pods of a node, come from one address.
 * An idle connection takes 60 kB of memory.
 */
export const CONNECTION_LIMITS: HttpLimits = {
  connections: 600,
  requestMs: 5000,
  silenceMs: 30_000,
  idleMs: 120_000,
}
