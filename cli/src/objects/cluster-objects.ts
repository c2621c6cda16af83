import {
  CONFIGURATIONS,
  type Configuration,
  INSTANCES,
  type Instance,
  jsonWithoutPasswords,
  maskObject,
  NODE_REPORTS,
  type NodeReport,
  parseInstanceObject,
  parseNodeReport,
} from '@akrijs/api'
import {
  type ApiClient,
  ApiError,
  EVENTS,
  listPages,
  type ObjectKey,
  Resource,
  type ResourceKind,
} from '@akrijs/kube'
import { type Clock, systemClock } from '@akrijs/runtime'
import {
  EVENTS_OF_AKRI,
  notInstalled,
  readConfiguration,
  readEvent,
  readUses,
} from './cluster-readers.js'
import type { Kind } from './kinds.js'
import type { ObjectSource, ShownEvent, SlotUse } from './object-source.js'

interface ClusterObjectsOptions {
  readonly client: ApiClient
  /** Empty for all namespaces. */
  readonly namespace: string
  readonly signal: AbortSignal
  /** @default the clock of this machine */
  readonly clock?: Pick<Clock, 'sleep'>
}

/** The objects of one list, as kubectl asks for them. */
const PAGE = 500
/** How long changes are gathered, in milliseconds. */
const GATHER_MS = 1000

/** The objects that a kind is made of. */
const WATCHED: Readonly<Record<Kind, readonly ResourceKind[]>> = {
  configurations: [CONFIGURATIONS],
  instances: [INSTANCES],
  nodes: [NODE_REPORTS],
  handlers: [CONFIGURATIONS, NODE_REPORTS],
}

/** The objects of a cluster, as its API server has them now. */
export class ClusterObjects implements ObjectSource {
  readonly #options: ClusterObjectsOptions
  /** The versions of the last lists. */
  readonly #lists = new Map<string, { readonly path: string; readonly version: string }>()

  constructor(options: ClusterObjectsOptions) {
    this.#options = options
  }

  get client(): ApiClient {
    return this.#options.client
  }

  /** Empty for all namespaces. */
  get namespace(): string {
    return this.#options.namespace
  }

  get signal(): AbortSignal {
    return this.#options.signal
  }

  /** The objects of another namespace, or of all. */
  in(namespace: string): ClusterObjects {
    return new ClusterObjects({ ...this.#options, namespace })
  }

  async configurations(): Promise<readonly Configuration[]> {
    const objects = await this.#list(CONFIGURATIONS)
    return objects.flatMap((object) => readConfiguration(object) ?? []).map(maskObject)
  }

  async instances(): Promise<readonly Instance[]> {
    const objects = await this.#list(INSTANCES)
    return objects.flatMap((object) => parseInstanceObject(object) ?? []).map(maskObject)
  }

  async nodes(): Promise<readonly NodeReport[]> {
    const objects = await this.#list(NODE_REPORTS, '')
    return objects.flatMap((object) => parseNodeReport(object) ?? [])
  }

  async events(): Promise<readonly ShownEvent[]> {
    const objects = await this.#list(EVENTS, this.#options.namespace, EVENTS_OF_AKRI)
    return objects
      .flatMap((object) => readEvent(object) ?? [])
      .sort((a, b) => a.lastTimestamp.localeCompare(b.lastTimestamp))
  }

  async uses(): Promise<ReadonlyMap<ObjectKey, readonly SlotUse[]>> {
    const used = new Map<ObjectKey, SlotUse[]>()
    for (const report of await this.#list(NODE_REPORTS, '')) {
      for (const [key, found] of readUses(report))
        used.set(key, [...(used.get(key) ?? []), ...found])
    }
    return used
  }

  /** Pods and Jobs: `uses` has those that use a slot. */
  async broker(): Promise<undefined> {}

  /** Watches what the last lists have read. Several changes in a second count as one. */
  async changed(kind: Kind): Promise<void> {
    const stop = new AbortController()
    const signal = AbortSignal.any([this.signal, stop.signal])
    try {
      await Promise.race(WATCHED[kind].map((each) => this.#nextEvent(each, signal)))
    } finally {
      stop.abort()
    }
    await (this.#options.clock ?? systemClock).sleep(GATHER_MS, this.signal)
  }

  async #nextEvent({ plural }: ResourceKind, signal: AbortSignal): Promise<void> {
    const list = this.#lists.get(plural)
    if (list === undefined) return
    const { path, version } = list
    const query = { watch: 1, resourceVersion: version }
    const request = { method: 'GET', path, query } as const
    try {
      // A server ends each watch after some time.
      for (;;) for await (const _line of this.client.lines(request, signal)) return
    } catch (error) {
      // The server has forgotten the version.
      if (!ApiError.is(error, 410)) throw error
    }
  }

  /** Lists the newest objects. */
  async #list(
    kind: ResourceKind,
    namespace = this.#options.namespace,
    query: Readonly<Record<string, string>> = {},
  ): Promise<unknown[]> {
    const { client, signal } = this.#options
    const path = new Resource(client, kind).path(namespace)
    const objects: unknown[] = []
    try {
      for await (const page of listPages(
        { client, path, query, pageSize: PAGE },
        undefined,
        signal,
      )) {
        objects.push(...withoutPasswords(page.objects))
        this.#lists.set(kind.plural, { path, version: page.version })
      }
    } catch (error) {
      if (!ApiError.is(error, 404) || kind.group === '') throw error
      throw notInstalled(kind, error)
    }
    return objects
  }
}

/** Other programs write ids and messages, in which URLs can have passwords. */
function withoutPasswords(objects: readonly unknown[]): readonly unknown[] {
  return JSON.parse(jsonWithoutPasswords(objects)) as unknown[]
}
