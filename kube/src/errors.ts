/** Known by every package of akri.js, whichever copy of it made the error: see AkriError in @akrijs/sdk. */
const MARK = Symbol.for('akri.error')

/** The base of the errors of this package. */
export class KubeError extends Error {
  readonly code: `AKRI_ERR_${string}`
  /** `terminal`: nothing gets better by trying again. `transient`: the world may be better later. */
  readonly kind: 'terminal' | 'transient'
  readonly [MARK] = true

  constructor(
    code: `AKRI_ERR_${string}`,
    kind: 'terminal' | 'transient',
    message: string,
    options?: { readonly cause?: unknown },
  ) {
    super(message, options)
    this.name = 'KubeError'
    this.code = code
    this.kind = kind
  }
}

/** What the API server says of a request that it refuses: its `Status`. */
export interface ApiStatus {
  /** The HTTP status. */
  readonly status: number
  /** One word, such as `NotFound`, `Conflict`, `AlreadyExists`, `Expired`, `Invalid`. */
  readonly reason: string
  readonly message: string
  /** How long the server wants us to wait, in milliseconds. */
  readonly retryAfterMs?: number | undefined
}

/** The API server refused a request. */
export class ApiError extends KubeError {
  readonly status: number
  readonly reason: string
  readonly retryAfterMs: number | undefined

  constructor(request: string, { status, reason, message, retryAfterMs }: ApiStatus) {
    // What is wrong with the request itself stays wrong; a missing right may be given later.
    const kind = status === 400 || status === 405 || status === 413 || status === 415 || status === 422 ? 'terminal' : 'transient'
    super('AKRI_ERR_API', kind, `${request}: ${status} ${reason}: ${message}`)
    this.name = 'ApiError'
    this.status = status
    this.reason = reason
    this.retryAfterMs = retryAfterMs
  }

  static is(error: unknown, status: number): error is ApiError {
    return error instanceof ApiError && error.status === status
  }
}

/** The API server cannot be reached, or does not answer as one. Whether the request was carried out is not known. */
export class ApiUnreachableError extends KubeError {
  constructor(message: string, options?: { readonly cause?: unknown }) {
    super('AKRI_ERR_API_UNREACHABLE', 'transient', message, options)
    this.name = 'ApiUnreachableError'
  }
}

/** There is nothing that says which cluster to use, or it makes no sense. */
export class ClusterAccessError extends KubeError {
  constructor(message: string, options?: { readonly cause?: unknown }) {
    super('AKRI_ERR_CLUSTER_ACCESS', 'terminal', message, options)
    this.name = 'ClusterAccessError'
  }
}

/** What was given is no name of an object, and would make the path of something else. */
export class ObjectNameError extends KubeError {
  constructor(name: string) {
    super('AKRI_ERR_OBJECT_NAME', 'terminal', `${JSON.stringify(name)} is no name of an object`)
    this.name = 'ObjectNameError'
  }
}
