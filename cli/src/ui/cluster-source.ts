import { setMaxListeners } from 'node:events'
import {
  CONFIGURATIONS,
  type Configuration,
  customResourceName,
  GROUP,
  INSTANCES,
  type Instance,
  NODE_REPORTS,
  type NodeReport,
  parseInstanceObject,
  parseNodeReport,
  parseObjectMeta,
} from '@akrijs/api'
import {
  type ApiClient,
  ApiError,
  type ApiObject,
  EVENTS,
  keyOf,
  type ObjectKey,
  objectKey,
  PODS,
  type ResourceKind,
} from '@akrijs/kube'
import { type Clock, firstLine, Listeners, type Logger, messageOf, valueAt } from '@akrijs/runtime'
import {
  configurationKey,
  deviceKey,
  eventsKey,
  handlerKey,
  OUTAGES_KEY,
  type UiAbout,
  type UiItem,
  type UiKey,
  type UiOutages,
  type UiSource,
} from '@akrijs/ui'
import {
  EVENTS_OF_AKRI,
  notInstalled,
  readConfiguration,
  readEvent,
  readUses,
} from '../objects/cluster-readers.js'
import { type HandlerView, handlerState, handlersOf } from '../objects/handlers.js'
import type { ShownEvent, SlotUse } from '../objects/object-source.js'
import { BROKER_PODS, type BrokerPod, brokerOf, readBrokerPod } from './broker-pods.js'
import { WatchedObjects } from './watched-objects.js'

interface ClusterSourceOptions {
  readonly about: UiAbout
  readonly client: ApiClient
  /** Empty for all namespaces. */
  readonly namespace: string
  readonly clock: Clock
  readonly log: Logger
}

/** What a kind of object is for. */
interface WatchedKind<T> {
  readonly kind: ResourceKind
  readonly namespace: string
  /** What the page lacks without these objects. */
  readonly lacks: string
  /** The kind of the items that are only made of these objects. @default none */
  readonly items?: UiItem['kind']
  readonly query?: { readonly labelSelector?: string; readonly fieldSelector?: string }
  parse(object: unknown): T | undefined
  itemsOf(object: T): readonly UiKey[]
}

type Watched = Omit<WatchedKind<never>, 'parse' | 'itemsOf'> & {
  readonly objects: Pick<WatchedObjects<ApiObject>, 'begun' | 'failure' | 'isRead' | 'run'>
}

interface SeenReport extends ApiObject {
  readonly report: NodeReport
  readonly uses: ReadonlyMap<ObjectKey, readonly SlotUse[]>
}

interface SeenEvent extends ApiObject {
  readonly event: ShownEvent
}

/** The newest Events of an object that a page gets: there is no bound for those of a cluster. */
const MAX_EVENTS = 100

/** What the page shows of a cluster, as far as its rights allow. No Secret is asked for. */
export class ClusterSource implements UiSource {
  readonly about: UiAbout
  readonly #watched: Watched[] = []
  readonly #configurations: WatchedObjects<Configuration>
  readonly #instances: WatchedObjects<Instance>
  readonly #reports: WatchedObjects<SeenReport>
  readonly #pods: WatchedObjects<BrokerPod>
  readonly #events: WatchedObjects<SeenEvent>
  readonly #listeners = new Listeners<[key: UiKey]>()
  /** The handlers by their names; undefined after a change of what they are made of. */
  #handlers: ReadonlyMap<string, HandlerView> | undefined

  constructor({ about, namespace, client, clock, log }: ClusterSourceOptions) {
    this.about = about
    const watch = <T extends ApiObject>(what: WatchedKind<T>): WatchedObjects<T> => {
      const objects = new WatchedObjects<T>({
        ...{ query: {}, ...what, client, clock, log },
        onChange: (items) => {
          this.#handlers = undefined
          this.#tell(items)
          // A report can have another state of each handler.
          if (what.kind === NODE_REPORTS) this.#tell(this.#handlerKeys())
        },
        onOutage: () => this.#tell([OUTAGES_KEY, ...this.#handlerKeys()]),
      })
      this.#watched.push({ ...what, objects })
      return objects
    }
    this.#configurations = watch({
      ...{ kind: CONFIGURATIONS, namespace, lacks: 'Configurations and handlers' },
      items: 'configuration',
      parse: readShownConfiguration,
      itemsOf: (object) => {
        const { name } = object.spec.discoveryHandler
        return [configurationKey(keyOf(object)), ...(name === '' ? [] : [handlerKey(name)])]
      },
    })
    this.#instances = watch({
      ...{ kind: INSTANCES, namespace, lacks: 'devices', items: 'device' },
      parse: parseInstanceObject,
      itemsOf: (object) => [deviceKey(keyOf(object))],
    })
    this.#reports = watch({
      ...{ kind: NODE_REPORTS, namespace: '' },
      lacks: 'the Pods that use slots, and the states of handlers',
      parse: readReport,
      itemsOf: ({ uses }) => [...uses.keys()].map(deviceKey),
    })
    this.#pods = watch({
      ...{ kind: PODS, namespace, lacks: 'the states of brokers' },
      query: BROKER_PODS,
      parse: readBrokerPod,
      itemsOf: ({ metadata, instance }) => [deviceKey(objectKey(metadata.namespace, instance))],
    })
    this.#events = watch({
      ...{ kind: EVENTS, namespace, lacks: 'the history of devices', items: 'events' },
      query: EVENTS_OF_AKRI,
      parse: readSeenEvent,
      itemsOf: ({ event }) => [eventsKey(event)],
    })
  }

  /** Resolves when each kind of object is read, or cannot be read. */
  async begun(): Promise<void> {
    await Promise.all(this.#watched.map(({ objects }) => objects.begun))
  }

  /** Follows the cluster until the signal is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    const all = AbortSignal.any([signal])
    // Two of each watch.
    setMaxListeners(0, all)
    await Promise.all(this.#watched.map(({ objects }) => objects.run(all)))
  }

  *keys(): Generator<UiKey> {
    yield OUTAGES_KEY
    yield* this.#configurations.shown
    yield* this.#instances.shown
    yield* this.#events.shown
  }

  item(key: UiKey): UiItem | undefined {
    const [, kind, name = ''] = /^([^/]+)\/(.*)$/s.exec(key) ?? []
    switch (kind) {
      case 'configuration': {
        const object = this.#configurations.get(name as ObjectKey)
        return object && { kind, object }
      }
      case 'device':
        return this.#device(name as ObjectKey)
      case 'events': {
        const seen = this.#events.of(key).map(({ event }) => event)
        if (seen.length === 0) return undefined
        const events = seen
          .sort((a, b) => a.lastTimestamp.localeCompare(b.lastTimestamp))
          .slice(-MAX_EVENTS)
          .map(({ type, ...event }) => ({
            ...event,
            type: type === 'Warning' ? ('Warning' as const) : ('Normal' as const),
          }))
        return { kind, events }
      }
      case 'handler':
        return this.#handler(name)
      case 'outages':
        return this.#outages()
    }
    return undefined
  }

  onChange(listener: (key: UiKey) => void, signal: AbortSignal): void {
    this.#listeners.add(listener, signal)
  }

  #tell(keys: Iterable<UiKey>): void {
    for (const key of keys) this.#listeners.tell(key)
  }

  #device(key: ObjectKey): UiItem | undefined {
    const object = this.#instances.get(key)
    if (object === undefined) return undefined
    const item = deviceKey(key)
    const uses = this.#reports.of(item).flatMap(({ uses }) => uses.get(key) ?? [])
    return {
      kind: 'device',
      object,
      broker: brokerOf(this.#pods.of(item)),
      users: Object.fromEntries(uses.map(({ slot, user }) => [slot, user])),
    }
  }

  #handler(name: string): UiItem | undefined {
    const handler = this.#handlerViews().get(name)
    if (handler === undefined) return undefined
    if (!this.#reports.isRead) return { kind: 'handler', name, place: '', isConnected: undefined }
    const { nodes } = handler
    const connected = nodes.filter((node) => node.connected).length
    const count = nodes.length === 0 ? [] : `on ${connected} of ${nodes.length} nodes`
    const place = [count, handlerState(handler)].flat().join(' · ')
    return {
      kind: 'handler',
      name,
      place,
      isConnected: nodes.length === 0 ? undefined : connected > 0,
    }
  }

  #handlerViews(): ReadonlyMap<string, HandlerView> {
    if (this.#handlers === undefined) {
      const reports = this.#reports.list().map(({ report }) => report)
      const views = handlersOf(this.#configurations.list(), reports)
      this.#handlers = new Map(views.map((view) => [view.metadata.name, view]))
    }
    return this.#handlers
  }

  #handlerKeys(): UiKey[] {
    return [...this.#configurations.shown].filter((key) => key.startsWith('handler/'))
  }

  #outages(): UiOutages {
    const failed = this.#watched.filter(({ objects }) => objects.failure !== undefined)
    const lost = failed.find((each) => messageOfOutage(each) === undefined)
    const messages = [
      ...(lost === undefined ? [] : [`${LOST} ${firstLine(messageOf(lost.objects.failure))}`]),
      ...failed.flatMap((each) => messageOfOutage(each) ?? []),
    ]
    const unread = this.#watched.flatMap(({ items, objects }) =>
      items === undefined || objects.isRead ? [] : items,
    )
    return { kind: 'outages', messages, unread }
  }
}

const LOST =
  'The API server does not answer, so what this page shows may be old. It tries again. The reason:'

/**
 * Names a right that is missing, and what the page lacks.
 * @returns undefined for a failure of the server, which all kinds share
 */
function messageOfOutage({ kind, namespace, lacks, objects }: Watched): string | undefined {
  const { failure } = objects
  if (ApiError.is(failure, 404) && kind.group === GROUP) return notInstalled(kind, failure).message
  if (!ApiError.is(failure, 403)) return undefined
  const what = kind.group === '' ? kind.plural : customResourceName(kind)
  const where = namespace === '' ? 'of the cluster' : `in the namespace ${namespace}`
  const state = objects.isRead ? 'are no longer up to date' : 'are not shown'
  return `The right to list and watch ${what} ${where} is missing: ${lacks} ${state}.`
}

/** The page reads the name of the handler, which a wrong spec may lack. */
function readShownConfiguration(object: unknown): Configuration | undefined {
  const configuration = readConfiguration(object)
  if (configuration === undefined) return undefined
  const name: unknown = valueAt(configuration.spec, 'discoveryHandler', 'name')
  if (typeof name === 'string') return configuration
  const discoveryHandler = { name: '', discoveryDetails: '', discoveryProperties: [] }
  return { ...configuration, spec: { ...configuration.spec, discoveryHandler } }
}

function readReport(object: unknown): SeenReport | undefined {
  const report = parseNodeReport(object)
  return report && { metadata: report.metadata, report, uses: readUses(object) }
}

function readSeenEvent(object: unknown): SeenEvent | undefined {
  const metadata = parseObjectMeta(object)
  const event = readEvent(object)
  return metadata && event && { metadata, event }
}
