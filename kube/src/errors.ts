import { AkriError, defineError } from '@akrijs/runtime'

/** The `Status` with which an API server refuses a request. */
export interface ApiStatus {
  /** The HTTP status. */
  readonly status: number
  /** A word, such as `NotFound`, `Conflict`, `AlreadyExists`, `Expired`, `Invalid`. */
  readonly reason: string
  readonly message: string
  /** The time until a retry that the server asks for, in milliseconds. */
  readonly retryAfterMs?: number | undefined
}

/** The API server refused a request. */
export class ApiError extends AkriError {
  readonly status: number
  readonly reason: string
  /** The sentence of the server. */
  readonly answer: string
  readonly retryAfterMs: number | undefined

  constructor(request: string, { status, reason, message, retryAfterMs }: ApiStatus) {
    // A request that is wrong stays wrong. A missing right may be granted later.
    const kind = [400, 405, 413, 415, 422].includes(status) ? 'terminal' : 'transient'
    super('AKRI_ERR_API', kind, `${request}: ${status} ${reason}: ${message}`)
    this.status = status
    this.reason = reason
    this.answer = message
    this.retryAfterMs = retryAfterMs
  }

  /** @param status the HTTP status. @default any */
  static override is(error: unknown, status?: number): error is ApiError {
    return error instanceof ApiError && (status === undefined || error.status === status)
  }
}

/**
 * The API server cannot be reached, or another program answers. The server may have executed the
 * request.
 */
export class ApiUnreachableError extends defineError('AKRI_ERR_API_UNREACHABLE', 'transient') {}

/**
 * The API server has an older version than before: its etcd was restored from a backup. All objects
 * are listed again.
 */
export class StoreRestoredError extends defineError('AKRI_ERR_STORE_RESTORED', 'transient') {}

/** The answer is longer than the client reads. */
export class AnswerTooLongError extends ApiUnreachableError {}

/** No kubeconfig and no service account names the cluster, or one of the two is unusable. */
export class ClusterAccessError extends defineError('AKRI_ERR_CLUSTER_ACCESS', 'terminal') {}

/** A text is no name of an object: the path of the request would be the path of other objects. */
export class ObjectNameError extends defineError('AKRI_ERR_OBJECT_NAME', 'terminal') {
  constructor(name: string) {
    super(`${JSON.stringify(name)} is no name of an object`)
  }
}

/** The simulated kubelet refused a Pod, with the reason that a kubelet gives. */
export class AdmissionError extends defineError('AKRI_ERR_ADMISSION', 'transient') {
  constructor(message: string) {
    super(`UnexpectedAdmissionError: ${message}`)
  }
}
