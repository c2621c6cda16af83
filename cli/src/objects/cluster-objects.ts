import {
  API_VERSION,
  CONFIGURATIONS,
  type Configuration,
  customResourceName,
  INSTANCES,
  type Instance,
  jsonWithoutPasswords,
  maskObject,
  NODE_REPORTS,
  type NodeReport,
  parseConfigurationObject,
  parseInstanceObject,
  parseNodeReport,
} from '@akrijs/api'
import {
  type ApiClient,
  ApiError,
  EVENTS,
  listPages,
  type ObjectKey,
  objectKey,
  Resource,
  type ResourceKind,
} from '@akrijs/kube'
import { valueAt } from '@akrijs/runtime'
import * as z from 'zod'
import { NotInstalledError } from '../errors.js'
import type { ObjectSource, ShownEvent, SlotUse } from './object-source.js'

interface ClusterObjectsOptions {
  readonly client: ApiClient
  /** Empty for all namespaces. */
  readonly namespace: string
  readonly signal: AbortSignal
}

/** The objects of one list, as kubectl asks for them. */
const PAGE = 500

const text = z.string().catch('')
const event = z.object({
  involvedObject: z.object({ kind: text, namespace: text, name: text }),
  ...{ type: text, reason: text, message: text },
  count: z.number().catch(1),
  // Some clients write only the time of the Event.
  lastTimestamp: z.string().nullish().catch(undefined),
  eventTime: z.string().nullish().catch(undefined),
  metadata: z.object({ creationTimestamp: text }),
})
const uses = z.array(z.object({ slot: text, pod: text, since: z.string().optional() }))

/** The objects of a cluster, as its API server has them now. */
export class ClusterObjects implements ObjectSource {
  readonly #options: ClusterObjectsOptions

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
    const fieldSelector = `involvedObject.apiVersion=${API_VERSION}`
    const objects = await this.#list(EVENTS, this.#options.namespace, { fieldSelector })
    return objects
      .flatMap((object) => event.safeParse(object).data ?? [])
      .map(({ involvedObject, lastTimestamp, eventTime, metadata, ...rest }) => ({
        ...rest,
        kind: involvedObject.kind,
        key: objectKey(involvedObject.namespace, involvedObject.name),
        lastTimestamp: lastTimestamp ?? eventTime ?? metadata.creationTimestamp,
      }))
      .sort((a, b) => a.lastTimestamp.localeCompare(b.lastTimestamp))
  }

  async uses(): Promise<ReadonlyMap<ObjectKey, readonly SlotUse[]>> {
    const used = new Map<ObjectKey, SlotUse[]>()
    for (const report of await this.#list(NODE_REPORTS, '')) {
      const slots = valueAt(report, 'slots') ?? {}
      for (const [key, entries] of Object.entries(slots)) {
        const found = uses.safeParse(entries).data ?? []
        const before = used.get(key as ObjectKey) ?? []
        const read = found.map(({ slot, pod, since }) => ({ slot, user: pod, since }))
        used.set(key as ObjectKey, [...before, ...read])
      }
    }
    return used
  }

  /** Pods and Jobs: `uses` has those that use a slot. */
  async broker(): Promise<undefined> {}

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
      ))
        objects.push(...withoutPasswords(page.objects))
    } catch (error) {
      if (!ApiError.is(error, 404) || kind.group === '') throw error
      throw new NotInstalledError(
        `the cluster has no ${customResourceName(kind)} of ${kind.version}: akri.js is not ` +
          'installed there (docs/helm.md), or the context is that of another cluster',
        { cause: error },
      )
    }
    return objects
  }
}

/** Other programs write ids and messages, in which URLs can have passwords. */
function withoutPasswords(objects: readonly unknown[]): readonly unknown[] {
  return JSON.parse(jsonWithoutPasswords(objects)) as unknown[]
}

/** Also a Configuration whose spec is wrong, with the reason as its condition. */
function readConfiguration(object: unknown): Configuration | undefined {
  const parsed = parseConfigurationObject(object)
  if (parsed.ok) return parsed.configuration
  if (parsed.found === undefined) return undefined
  const { metadata, status } = parsed.found
  const ready = {
    type: 'Ready',
    status: 'False',
    reason: 'InvalidConfiguration',
    message: parsed.problems.map(({ path, message }) => `${path}: ${message}`).join('; '),
    lastTransitionTime: metadata.creationTimestamp,
  } as const
  const nothing = { observedGeneration: 0, devices: 0, slots: { total: 0, claimed: 0 }, nodes: {} }
  const others = status?.conditions.filter(({ type }) => type !== 'Ready') ?? []
  return {
    apiVersion: API_VERSION,
    kind: 'Configuration',
    metadata,
    spec: valueAt(object, 'spec') as Configuration['spec'],
    status: { ...nothing, ...status, conditions: [ready, ...others] },
  }
}
