import type { ApiClient, ApiRequest, PatchType } from './api-client.js'
import { ApiError, ObjectNameError } from './errors.js'
import { type JsonPatch, keyParts, type ObjectKey, type ResourceKind } from './objects.js'

interface RequestOptions {
  readonly signal?: AbortSignal | undefined
  /** @default the limit of the client */
  readonly timeoutMs?: number
}

export interface DeleteOptions {
  readonly propagationPolicy?: 'Background' | 'Foreground' | 'Orphan'
  /**
   * The time that a Pod has to end. 0 does not wait for its kubelet.
   * @default the grace period of the Pod
   */
  readonly gracePeriodSeconds?: number
  readonly signal?: AbortSignal
}

interface CreateOptions extends RequestOptions {
  /** Whether the server only says what it would do. @default false */
  readonly dryRun?: boolean
}

interface WriteOptions extends RequestOptions {
  /** `status` for the status subresource. */
  readonly subresource?: 'status'
}

/** The objects of one kind. The caller parses the objects that the server returns. */
export class Resource {
  readonly #client: ApiClient
  readonly #base: string
  readonly #plural: string

  constructor(client: ApiClient, { group, version, plural }: ResourceKind) {
    this.#client = client
    this.#base = group === '' ? `/api/${version}` : `/apis/${group}/${version}`
    this.#plural = plural
  }

  /** The path of all objects of the kind, or of the objects of a namespace. */
  path(namespace = ''): string {
    return namespace === ''
      ? `${this.#base}/${this.#plural}`
      : `${this.#base}/namespaces/${segment(namespace)}/${this.#plural}`
  }

  /** @returns undefined if there is no such object */
  async get(key: ObjectKey, options: RequestOptions = {}): Promise<unknown> {
    const path = this.#pathOf(key)
    return this.#client.request({ method: 'GET', path, ...options }).catch(absent)
  }

  async create(
    namespace: string,
    object: unknown,
    { dryRun = false, ...options }: CreateOptions = {},
  ): Promise<unknown> {
    const path = this.path(namespace)
    const query = dryRun ? { query: { dryRun: 'All' } } : {}
    return this.#client.request({ method: 'POST', path, ...query, body: object, ...options })
  }

  patch(key: ObjectKey, type: 'json', patch: JsonPatch, options?: WriteOptions): Promise<unknown>
  patch(key: ObjectKey, type: 'merge', patch: object, options?: WriteOptions): Promise<unknown>
  async patch(
    key: ObjectKey,
    type: PatchType,
    patch: unknown,
    options?: WriteOptions,
  ): Promise<unknown> {
    return this.#patch(key, { patch: type, body: patch }, options)
  }

  /**
   * Server-side apply: the manager owns the fields of the object. Fields that it no longer applies
   * are removed.
   */
  async apply(
    key: ObjectKey,
    object: object,
    manager: string,
    options?: WriteOptions,
  ): Promise<unknown> {
    const query = { fieldManager: manager, force: true }
    return this.#patch(key, { patch: 'apply', body: object, query }, options)
  }

  async replace(key: ObjectKey, object: unknown, options: RequestOptions = {}): Promise<unknown> {
    const path = this.#pathOf(key)
    return this.#client.request({ method: 'PUT', path, body: object, ...options })
  }

  /**
   * @param preconditions the object must have this uid and version, or the server answers 409
   * @returns false if there was no such object
   */
  async delete(
    key: ObjectKey,
    preconditions?: { readonly uid?: string; readonly resourceVersion?: string },
    options: DeleteOptions = {},
  ): Promise<boolean> {
    const { signal, ...policy } = options
    const body = { apiVersion: 'v1', kind: 'DeleteOptions', preconditions, ...policy }
    const path = this.#pathOf(key)
    const request = this.#client.request({ method: 'DELETE', path, body, signal })
    return (await request.then(() => true, absent)) ?? false
  }

  #patch(
    key: ObjectKey,
    patch: Pick<ApiRequest, 'patch' | 'body' | 'query'>,
    { subresource, ...options }: WriteOptions = {},
  ): Promise<unknown> {
    const path = this.#pathOf(key) + (subresource === undefined ? '' : `/${subresource}`)
    return this.#client.request({ method: 'PATCH', path, ...patch, ...options })
  }

  #pathOf(key: ObjectKey): string {
    if (!key.includes('/')) throw new ObjectNameError(key)
    const { namespace, name } = keyParts(key)
    return `${this.path(namespace)}/${segment(name)}`
  }
}

function absent(error: unknown): undefined {
  if (!ApiError.is(error, 404)) throw error
}

/**
 * A name as a segment of a path. No escape helps for dots, which are resolved before the path is
 * sent. A path without a name is the path of all objects, which a DELETE would remove.
 */
function segment(name: string): string {
  if (name === '' || name === '.' || name === '..') throw new ObjectNameError(name)
  return encodeURIComponent(name)
}
