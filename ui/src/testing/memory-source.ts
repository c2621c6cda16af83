import type {
  Configuration,
  ConfigurationName,
  ConfigurationStatus,
  Instance,
  InstanceName,
  InstanceStatus,
} from '@akrijs/api'
import { keyOf, type NodeName } from '@akrijs/kube/objects'
import { Listeners } from '@akrijs/runtime'
import {
  configurationKey,
  deviceKey,
  type UiAbout,
  type UiBroker,
  type UiItem,
  type UiKey,
  type UiSource,
  type UiTrial,
} from '../source.js'

/** A source whose items a test puts there. */
export class MemorySource implements UiSource {
  readonly about: UiAbout
  trial: UiTrial | undefined
  readonly #items = new Map<UiKey, UiItem>()
  readonly #listeners = new Listeners<[key: UiKey]>()

  constructor(about: UiAbout = { title: 'node-a' }) {
    this.about = about
  }

  keys(): Iterable<UiKey> {
    return this.#items.keys()
  }

  item(key: UiKey): UiItem | undefined {
    return this.#items.get(key)
  }

  onChange(listener: (key: UiKey) => void, signal: AbortSignal): void {
    this.#listeners.add(listener, signal)
  }

  put(key: UiKey, item: UiItem): void {
    this.#items.set(key, item)
    this.#listeners.tell(key)
  }

  putObject(object: Configuration | Instance, broker?: UiBroker): void {
    if (object.kind === 'Instance')
      this.put(deviceKey(keyOf(object)), { kind: 'device', object, broker })
    else this.put(configurationKey(keyOf(object)), { kind: 'configuration', object })
  }

  remove(key: UiKey): void {
    this.#items.delete(key)
    this.#listeners.tell(key)
  }
}

const NAMESPACE = 'plant'
const API_VERSION = 'akri.sh/v0'

function metadata<Name extends string>(name: Name) {
  const creationTimestamp = '2026-11-01T08:00:00Z'
  return {
    name,
    namespace: NAMESPACE,
    uid: name,
    generation: 1,
    resourceVersion: '1',
    creationTimestamp,
  }
}

/** A Configuration without a broker. */
export function configurationNamed(
  name: string,
  handler: string,
  status?: Partial<ConfigurationStatus>,
): Configuration {
  const counts = { devices: 0, slots: { total: 0, claimed: 0 } }
  return {
    apiVersion: API_VERSION,
    kind: 'Configuration',
    metadata: metadata(name as ConfigurationName),
    spec: {
      discoveryHandler: { name: handler, discoveryDetails: '', discoveryProperties: [] },
      capacity: 1,
      brokerProperties: {},
    },
    ...(status && {
      status: { observedGeneration: 1, conditions: [], nodes: {}, ...counts, ...status },
    }),
  }
}

interface DeviceOptions {
  readonly configuration?: string
  /** @default 2 */
  readonly capacity?: number
  /** @default 0 */
  readonly used?: number
  readonly status?: InstanceStatus
}

/** A device of the node `node-a`. */
export function deviceNamed(
  name: string,
  brokerProperties: Readonly<Record<string, string>>,
  { configuration = 'lab', capacity = 2, used = 0, status }: DeviceOptions = {},
): Instance {
  const deviceUsage = Object.fromEntries(
    Array.from({ length: capacity }, (_, index) => [
      `${name}-${index}`,
      index < used ? 'node-a' : '',
    ]),
  )
  return {
    apiVersion: API_VERSION,
    kind: 'Instance',
    metadata: metadata(name as InstanceName),
    spec: {
      configurationName: configuration as ConfigurationName,
      cdiName: `akri.sh/${configuration}=${name}`,
      capacity,
      brokerProperties,
      shared: true,
      nodes: ['node-a' as NodeName],
      deviceUsage,
    },
    ...(status && { status }),
  }
}
