import { customResourceName, GROUP, parseObjectMeta } from '@akrijs/api'
import {
  type ApiClient,
  ApiError,
  type ApiObject,
  keyOf,
  Reflector,
  Resource,
  type ResourceKind,
} from '@akrijs/kube'
import type { Clock, Logger } from '@akrijs/runtime'
import { MissingResourceError } from './errors.js'

/** All objects of one kind: a cache that a watch keeps current, and the resource for writes. */
export interface Collection<T extends ApiObject> {
  readonly cache: Reflector<T>
  readonly api: Resource
}

export interface CollectionOptions {
  readonly client: ApiClient
  readonly clock: Clock
  readonly log: Logger
}

export interface CollectionScope {
  /** @default all objects */
  readonly labelSelector?: string
  /** @default all namespaces */
  readonly namespace?: string
  /** The part of an object that `parse` reads. @default the whole object */
  reduce?(object: unknown): unknown
}

/**
 * @param parse makes a typed object, or undefined for an object that the cache leaves out. `now` is
 * by `monotonicMs`
 */
export function collectionOf<T extends ApiObject>(
  kind: ResourceKind,
  parse: (object: unknown, cached: T | undefined, now: number) => T | undefined,
  { client, clock, log }: CollectionOptions,
  { namespace = '', reduce, ...query }: CollectionScope = {},
): Collection<T> {
  const api = new Resource(client, kind)
  const path = api.path(namespace)
  const cache = new Reflector<T>({
    client,
    clock,
    path,
    query,
    ...(reduce && { reduce }),
    parse(object, cached) {
      try {
        return parse(object, cached, clock.monotonicMs())
      } catch (error) {
        // A bug in a parser must not end the watch of all objects: the last state stays.
        const metadata = parseObjectMeta(object)
        const key = metadata && keyOf({ metadata })
        log.error({ path, key, err: error }, 'object not parsed')
        return cached
      }
    },
    onError(error, delayMs) {
      const retryInMs = Math.round(delayMs)
      if (kind.group === GROUP && ApiError.is(error, 404)) {
        const err = new MissingResourceError(customResourceName(kind), { cause: error })
        log.error({ err, retryInMs }, 'custom resource not installed')
      } else log.warn({ path, err: error, retryInMs }, 'watch failed')
    },
  })
  return { cache, api }
}
