import { AkriError, defineError } from '@akrijs/runtime'

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
export class ApiError extends AkriError {
  readonly status: number
  readonly reason: string
  readonly retryAfterMs: number | undefined

  constructor(request: string, { status, reason, message, retryAfterMs }: ApiStatus) {
    // What is wrong with the request itself stays wrong; a missing right may be given later.
    const kind =
      status === 400 || status === 405 || status === 413 || status === 415 || status === 422
        ? 'terminal'
        : 'transient'
    super('AKRI_ERR_API', kind, `${request}: ${status} ${reason}: ${message}`)
    this.status = status
    this.reason = reason
    this.retryAfterMs = retryAfterMs
  }

  /** @param status the HTTP status. @default any */
  static override is(error: unknown, status?: number): error is ApiError {
    return error instanceof ApiError && (status === undefined || error.status === status)
  }
}

/** The API server cannot be reached, or does not answer as one. Whether the request was carried out is not known. */
export class ApiUnreachableError extends defineError('AKRI_ERR_API_UNREACHABLE', 'transient') {}

/** There is nothing that says which cluster to use, or it makes no sense. */
export class ClusterAccessError extends defineError('AKRI_ERR_CLUSTER_ACCESS', 'terminal') {}

/** What was given is no name of an object, and would make the path of something else. */
export class ObjectNameError extends defineError('AKRI_ERR_OBJECT_NAME', 'terminal') {
  constructor(name: string) {
    super(`${JSON.stringify(name)} is no name of an object`)
  }
}
