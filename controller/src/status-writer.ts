import { customResourceName, parseObjectMeta } from '@akrijs/api'
import { ApiError, keyOf, type ResourceKind } from '@akrijs/kube'
import type { Clock, Logger } from '@akrijs/runtime'
import type { Collection } from './collection.js'
import { OutdatedResourceError } from './errors.js'
import type { KubernetesObject } from './kubernetes-objects.js'

interface StatusWriterOptions<T extends KubernetesObject> {
  readonly kind: ResourceKind
  readonly collection: Collection<T>
  readonly clock: Pick<Clock, 'monotonicMs'>
  readonly log: Pick<Logger, 'error' | 'info'>
}

/** The merge patch of a status, with what it builds on. */
interface StatusPatch {
  readonly metadata: { readonly uid: string } | { readonly resourceVersion: string }
  /** @default nothing is changed */
  readonly status?: object
}

/** How often a status is tried whose custom resource has none, in milliseconds. */
const RETRY_MS = 60_000

/**
 * Writes the statuses of one kind. Helm never updates a custom resource that exists, and those of
 * the existing system have no status: the API server then answers as for an object that has gone.
 */
export class StatusWriter<T extends KubernetesObject> {
  readonly #options: StatusWriterOptions<T>
  /**
   * Until when no status of the kind is written, by `monotonicMs`; undefined if the custom resource
   * has a status, as far as this is known.
   */
  #outdatedUntil: number | undefined

  constructor(options: StatusWriterOptions<T>) {
    this.#options = options
  }

  /**
   * @returns the object after the write; undefined if it has gone, has changed, or another object
   * has its name. The watch event starts the next reconcile
   * @throws OutdatedResourceError if the custom resource has no status; ApiError,
   * ApiUnreachableError
   */
  async write(
    object: KubernetesObject,
    patch: StatusPatch,
    signal: AbortSignal,
  ): Promise<T | undefined> {
    const { collection, clock, log } = this.#options
    const { cache, api } = collection
    const key = keyOf(object)
    if ((this.#outdatedUntil ?? 0) > clock.monotonicMs())
      throw new OutdatedResourceError(this.#resource)
    try {
      const answer = await api.patch(key, 'merge', patch, { signal, subresource: 'status' })
      if (this.#outdatedUntil !== undefined) {
        this.#outdatedUntil = undefined
        log.info({ resource: this.#resource }, 'custom resource updated')
      }
      return cache.observe(answer)
    } catch (error) {
      if (ApiError.is(error, 409)) return undefined
      if (!ApiError.is(error, 404)) throw error
      const found = parseObjectMeta(await api.get(key, { signal }))
      if (found?.uid !== object.metadata.uid) return undefined
      throw this.#outdated(error)
    }
  }

  get #resource(): string {
    return customResourceName(this.#options.kind)
  }

  #outdated(cause: ApiError): OutdatedResourceError {
    const { clock, log } = this.#options
    const error = new OutdatedResourceError(this.#resource, { cause })
    if (this.#outdatedUntil === undefined)
      log.error({ resource: this.#resource, err: error }, 'custom resource outdated')
    this.#outdatedUntil = clock.monotonicMs() + RETRY_MS
    return error
  }
}
