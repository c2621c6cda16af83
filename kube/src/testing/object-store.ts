import { randomUUID } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import { isRecord } from '@akrijs/runtime'
import type { PatchType } from '../api-client.js'
import { ApiError } from '../errors.js'
import type { JsonPatch } from '../objects.js'
import { applyJsonPatch } from '../patches.js'
import { applyFields, updateFields } from './managed-fields.js'

/** An object of the store. Its path tells its kind, namespace and name. */
export interface StoredObject {
  readonly metadata: {
    readonly name: string
    readonly namespace?: string
    readonly uid: string
    readonly resourceVersion: string
    readonly [more: string]: unknown
  }
  readonly [field: string]: unknown
}

export interface StoreRequest {
  readonly method: string
  /** Without the query. */
  readonly path: string
  readonly query: URLSearchParams
  readonly body?: unknown
  /** The type of the body of a PATCH. */
  readonly patch?: PatchType | undefined
  /** The owner of the fields that the request changes. */
  readonly manager: string
}

export type StoreEvent =
  | { readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'; readonly object: StoredObject }
  | { readonly type: 'BOOKMARK'; readonly object: { readonly metadata: Fields } }

type Fields = Readonly<Record<string, unknown>>

interface Change {
  readonly version: number
  readonly key: string
  readonly before: StoredObject | undefined
  readonly after: StoredObject
  readonly deleted: boolean
}

interface Address {
  /** `/api/v1/pods`: where all objects of the kind are listed. */
  readonly kind: string
  readonly namespace: string
  readonly name: string | undefined
  readonly subresource: string | undefined
  /** The path without the subresource. */
  readonly key: string
}

const PATH = new RegExp(
  '^(/api/[^/]+|/apis/[^/]+/[^/]+)(?:/namespaces/([^/]+)(?=/))?' +
    '/([^/]+)(?:/([^/]+))?(?:/(status))?$',
)

/**
 * The objects of an API server, by its rules: versions, conflicts, patches, field owners, the
 * status subresource, finalizers, selectors, pages. Nothing is collected as garbage: owner
 * references are data. There are no schemas.
 */
export class ObjectStore {
  /** The objects by path. */
  readonly objects = new Map<string, StoredObject>()
  /** What is kept of an object: a custom resource drops fields that it does not have. */
  kept: (object: Fields) => Fields = (object) => object
  #version = 100
  readonly #history: Change[] = []
  readonly #watchers = new Set<(change: Change) => void>()
  readonly #snapshots: (readonly StoredObject[])[] = []

  /** The version of the newest change. */
  get version(): string {
    return String(this.#version)
  }

  /**
   * Remembers the present state, as a backup of etcd does.
   * @returns how to restore it: versions go back
   */
  backup(): () => void {
    const objects = [...this.objects]
    const version = this.#version
    const changes = this.#history.length
    return () => {
      this.objects.clear()
      for (const [key, object] of objects) this.objects.set(key, object)
      this.#version = version
      this.#history.length = changes
    }
  }

  /** Writes an object as it is, with its status; a uid, a namespace and a name are added. */
  put(
    path: string,
    object: { readonly metadata?: object; readonly [field: string]: unknown },
  ): StoredObject {
    const address = addressOf(path)
    if (address?.name === undefined) throw refusal(404, 'NotFound', path)
    return this.#write(address, object, this.objects.get(address.key))
  }

  remove(path: string): void {
    const object = this.objects.get(path)
    if (object === undefined) return
    this.objects.delete(path)
    const version = ++this.#version
    const after = { ...object, metadata: { ...object.metadata, resourceVersion: String(version) } }
    this.#record({ version, key: path, before: object, after, deleted: true })
  }

  /** @throws ApiError */
  handle(request: StoreRequest): unknown {
    const address = addressOf(request.path)
    if (address === undefined) throw refusal(404, 'NotFound', request.path)
    const { key, name } = address
    if (request.method === 'GET' && name === undefined) return this.#list(address, request.query)
    if (request.method === 'POST') return this.#create(address, request)
    const found = this.objects.get(key)
    if (request.method === 'PATCH' && request.patch === 'apply')
      return this.#apply(address, found, request)
    if (found === undefined) throw refusal(404, 'NotFound', `${key} not found`)
    if (request.method === 'PUT') return this.#update(address, found, request.body, request.manager)
    if (request.method === 'PATCH')
      return this.#update(address, found, patched(found, request), request.manager)
    if (request.method === 'DELETE') return this.#delete(key, found, request.body)
    return found
  }

  /**
   * Hands over the changes after the version of the query, now and later. If the query asks for
   * that, the watch begins with the present objects and a bookmark.
   * @returns how to stop that
   * @throws ApiError
   */
  watch(
    { path, query }: Pick<StoreRequest, 'path' | 'query'>,
    onEvent: (event: StoreEvent) => void,
  ): () => void {
    const address = addressOf(path)
    const begins = query.get('sendInitialEvents') === 'true'
    const since = begins ? this.#version : Number(query.get('resourceVersion') ?? this.#version)
    const watcher = (change: Change) => {
      if (change.version <= since) return
      const isMeant = (object: StoredObject | undefined) =>
        object !== undefined && isSelected(change.key, object, address, query)
      const had = isMeant(change.before)
      const has = !change.deleted && isMeant(change.after)
      if (!had && !has) return
      onEvent({ type: !has ? 'DELETED' : had ? 'MODIFIED' : 'ADDED', object: change.after })
    }
    this.#mustHaveReached(query)
    if (begins && address !== undefined) {
      for (const object of this.#selected(address, query)) onEvent({ type: 'ADDED', object })
      const annotations = { 'k8s.io/initial-events-end': 'true' }
      const metadata = { resourceVersion: this.version, annotations }
      onEvent({ type: 'BOOKMARK', object: { metadata } })
    }
    for (const change of this.#history) watcher(change)
    this.#watchers.add(watcher)
    return () => this.#watchers.delete(watcher)
  }

  #list(address: Address, query: URLSearchParams): object {
    this.#mustHaveReached(query)
    const [snapshot, from] = (query.get('continue') ?? '').split(':').map(Number)
    const objects =
      from === undefined ? this.#selected(address, query) : (this.#snapshots[snapshot ?? -1] ?? [])
    const begin = from ?? 0
    const end = begin + Number(query.get('limit') ?? objects.length)
    const isLast = end >= objects.length
    const index = from === undefined && !isLast ? this.#snapshots.push(objects) - 1 : snapshot
    const rest = isLast ? {} : { continue: `${index}:${end}` }
    return {
      metadata: { resourceVersion: this.version, ...rest },
      items: objects.slice(begin, end),
    }
  }

  #selected(address: Address, query: URLSearchParams): StoredObject[] {
    return [...this.objects].flatMap(([key, object]) =>
      isSelected(key, object, address, query) ? [object] : [],
    )
  }

  #mustHaveReached(query: URLSearchParams): void {
    if (query.get('resourceVersionMatch') !== 'NotOlderThan') return
    const least = Number(query.get('resourceVersion'))
    if (least > this.#version) throw refusal(504, 'Timeout', `Too large resource version: ${least}`)
  }

  #create(address: Address, { body, manager }: StoreRequest): StoredObject {
    const { status: _status, ...object } = fieldsOf(body)
    const name = metadataOf(object).name
    if (typeof name !== 'string') throw refusal(422, 'Invalid', 'metadata.name: it is missing')
    const key = `${address.key}/${name}`
    if (this.objects.has(key)) throw refusal(409, 'AlreadyExists', `${key} already exists`)
    return this.#write(
      { ...address, name, key },
      updateFields(undefined, object, manager),
      undefined,
    )
  }

  #update(address: Address, found: StoredObject, body: unknown, manager: string): StoredObject {
    const sent = fieldsOf(body)
    const { resourceVersion } = metadataOf(sent)
    if (resourceVersion !== undefined && resourceVersion !== found.metadata.resourceVersion)
      throw refusal(409, 'Conflict', 'the object has been modified')
    const { status: sentStatus, ...main } = sent
    const { status, ...rest } = found
    const object =
      address.subresource === 'status'
        ? { ...rest, ...(sentStatus === undefined ? {} : { status: sentStatus }) }
        : { ...main, ...(status === undefined ? {} : { status }) }
    // A write of what is there already changes nothing.
    if (isDeepStrictEqual({ ...object, metadata: undefined }, { ...found, metadata: undefined })) {
      const { resourceVersion: _version, ...metadata } = metadataOf(object)
      const { resourceVersion: _found, ...before } = found.metadata
      if (isDeepStrictEqual(metadata, before)) return found
    }
    const written = this.#write(address, raised(found, updateFields(found, object, manager)), found)
    return this.#finalized(address.key, written)
  }

  #apply(address: Address, found: StoredObject | undefined, request: StoreRequest): StoredObject {
    const force = request.query.get('force') === 'true'
    const result = applyFields(found, fieldsOf(request.body), request.manager, force)
    if ('conflicts' in result)
      throw refusal(409, 'Conflict', `other managers own ${result.conflicts.join(', ')}`)
    const { status: _status, ...object } = result.object
    const status = found?.status === undefined ? {} : { status: found.status }
    const next = { ...object, ...status }
    const isSame = found !== undefined && isDeepStrictEqual(next, found)
    return isSame ? found : this.#write(address, raised(found, next), found)
  }

  #delete(key: string, found: StoredObject, body: unknown): object {
    const { preconditions } = fieldsOf(body)
    for (const [field, value] of Object.entries(fieldsOf(preconditions)))
      if (value !== found.metadata[field])
        throw refusal(409, 'Conflict', `the ${field} in the precondition is another`)
    const { finalizers, deletionTimestamp } = found.metadata
    if (!Array.isArray(finalizers) || finalizers.length === 0) {
      this.remove(key)
      return { kind: 'Status', status: 'Success' }
    }
    if (deletionTimestamp !== undefined) return found
    const now = new Date().toISOString()
    return this.put(key, { ...found, metadata: { ...found.metadata, deletionTimestamp: now } })
  }

  #finalized(key: string, object: StoredObject): StoredObject {
    const { finalizers, deletionTimestamp } = object.metadata
    if (deletionTimestamp !== undefined && !(Array.isArray(finalizers) && finalizers.length > 0))
      this.remove(key)
    return object
  }

  #write(
    { key, name = '', namespace }: Address,
    written: Fields,
    before: StoredObject | undefined,
  ): StoredObject {
    const version = ++this.#version
    const object = asGoReads(this.kept(written))
    const after = {
      ...object,
      metadata: {
        uid: before?.metadata.uid ?? randomUUID(),
        creationTimestamp: before?.metadata.creationTimestamp ?? '2026-01-01T00:00:00Z',
        generation: before?.metadata.generation ?? 1,
        ...(namespace === '' ? {} : { namespace }),
        ...metadataOf(object),
        name,
        resourceVersion: String(version),
      },
    } as StoredObject
    this.objects.set(key, after)
    this.#record({ version, key, before, after, deleted: false })
    return after
  }

  #record(change: Change): void {
    this.#history.push(change)
    for (const watcher of [...this.#watchers]) watcher(change)
  }
}

/** A change of the spec raises the generation. */
function raised(found: StoredObject | undefined, object: Fields): Fields {
  if (found === undefined || isDeepStrictEqual(object.spec, found.spec)) return object
  const generation = Number(found.metadata.generation) + 1
  return { ...object, metadata: { ...metadataOf(object), generation } }
}

function patched(found: StoredObject, { patch, body, path }: StoreRequest): unknown {
  if (patch === 'merge') return applyMergePatch(found, body)
  if (patch !== 'json' || !Array.isArray(body)) throw refusal(415, 'UnsupportedMediaType', path)
  const result = applyJsonPatch(found, body as JsonPatch)
  if ('refused' in result) throw refusal(422, 'Invalid', result.refused)
  return result.value
}

function addressOf(path: string): Address | undefined {
  const [, base, namespace = '', plural, name, subresource] = PATH.exec(path) ?? []
  if (base === undefined) return undefined
  const key = subresource === undefined ? path : path.slice(0, -(subresource.length + 1))
  return { kind: `${base}/${plural}`, namespace, name, subresource, key }
}

function isSelected(
  key: string,
  object: StoredObject,
  collection: Address | undefined,
  query: URLSearchParams,
): boolean {
  const address = addressOf(key)
  if (collection === undefined || address?.kind !== collection.kind) return false
  if (collection.namespace !== '' && address.namespace !== collection.namespace) return false
  const labels = fieldsOf(object.metadata.labels)
  return (
    isEach(query.get('labelSelector'), (label) => labels[label]) &&
    isEach(query.get('fieldSelector'), (field) =>
      field.split('.').reduce<unknown>((value, name) => fieldsOf(value)[name], object),
    )
  )
}

/** Whether each `name=value` and `!name` of a selector holds. */
function isEach(selector: string | null, fieldOf: (name: string) => unknown): boolean {
  return (selector ?? '')
    .split(',')
    .filter((term) => term !== '')
    .every((term) => {
      if (term.startsWith('!') && !term.includes('=')) return fieldOf(term.slice(1)) === undefined
      const [name = '', value, ...more] = term.split('=')
      if (value === undefined || more.length > 0 || name.endsWith('!'))
        throw refusal(400, 'BadRequest', `the fake API server knows no selector ${term}`)
      return fieldOf(name) === value
    })
}

/** A copy through JSON. Go replaces a half of a surrogate pair. */
function asGoReads(object: Fields): Fields {
  return JSON.parse(JSON.stringify(object), (_, value) =>
    typeof value === 'string' ? Buffer.from(value).toString() : value,
  )
}

function fieldsOf(value: unknown): Fields {
  return isRecord(value) ? value : {}
}

function metadataOf(object: Fields): Fields {
  return fieldsOf(object.metadata)
}

function refusal(status: number, reason: string, message: string): ApiError {
  return new ApiError('fake API server', { status, reason, message })
}

/** Applies a merge patch (RFC 7396) to a copy of the document: `null` removes a key. */
export function applyMergePatch(document: unknown, patch: unknown): unknown {
  if (!isRecord(patch)) return structuredClone(patch)
  const merged = new Map(Object.entries(isRecord(document) ? document : {}))
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) merged.delete(key)
    else merged.set(key, applyMergePatch(merged.get(key), value))
  }
  return Object.fromEntries(merged)
}
