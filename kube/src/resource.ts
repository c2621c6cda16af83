import type { ApiClient, PatchType } from './api-client.js'
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
    try {
      return await this.#client.request({ method: 'GET', path: this.#pathOf(key), ...options })
    } catch (error) {
      if (ApiError.is(error, 404)) return undefined
      throw error
    }
  }

  async create(namespace: string, object: unknown, options: RequestOptions = {}): Promise<unknown> {
    return this.#client.request({
      method: 'POST',
      path: this.path(namespace),
      body: object,
      ...options,
    })
  }

  patch(key: ObjectKey, type: 'json', patch: JsonPatch, options?: WriteOptions): Promise<unknown>
  patch(key: ObjectKey, type: 'merge', patch: object, options?: WriteOptions): Promise<unknown>
  async patch(
    key: ObjectKey,
    type: PatchType,
    patch: unknown,
    { subresource, ...options }: WriteOptions = {},
  ): Promise<unknown> {
    const path = this.#pathOf(key) + (subresource === undefined ? '' : `/${subresource}`)
    return this.#client.request({ method: 'PATCH', path, body: patch, patch: type, ...options })
  }

  /**
   * Server-side apply: the manager owns the fields of the object. Fields that it no longer applies
   * are removed.
   */
  async apply(
    key: ObjectKey,
    object: object,
    manager: string,
    { subresource, ...options }: WriteOptions = {},
  ): Promise<unknown> {
    const path = this.#pathOf(key) + (subresource === undefined ? '' : `/${subresource}`)
    const query = { fieldManager: manager, force: true }
    return this.#client.request({
      method: 'PATCH',
      path,
      query,
      body: object,
      patch: 'apply',
      ...options,
    })
  }

  async replace(key: ObjectKey, object: unknown, options: RequestOptions = {}): Promise<unknown> {
    return this.#client.request({
      method: 'PUT',
      path: this.#pathOf(key),
      body: object,
      ...options,
    })
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
    const { propagationPolicy, gracePeriodSeconds, signal } = options
    const body = {
      apiVersion: 'v1',
      kind: 'DeleteOptions',
      preconditions,
      propagationPolicy,
      gracePeriodSeconds,
    }
    try {
      await this.#client.request({ method: 'DELETE', path: this.#pathOf(key), body, signal })
      return true
    } catch (error) {
      if (ApiError.is(error, 404)) return false
      throw error
    }
  }

  #pathOf(key: ObjectKey): string {
    if (!key.includes('/')) throw new ObjectNameError(key)
    const { namespace, name } = keyParts(key)
    return `${this.path(namespace)}/${segment(name)}`
  }
}

/**
 * A name as a segment of a path. No escape helps for dots, which are resolved before the path is
 * sent. A path without a name is the path of all objects, which a DELETE would remove.
 */
function segment(name: string): string {
  if (name === '' || name === '.' || name === '..') throw new ObjectNameError(name)
  return encodeURIComponent(name)
}
