import { keyOf, type ObjectKey } from '@akrijs/kube'
import { Listeners } from '@akrijs/runtime'
import type { BrokerSet, StandaloneAgent } from '@akrijs/standalone'
import {
  configurationKey,
  deviceKey,
  eventsKey,
  handlerKey,
  PROBLEMS_KEY,
  type UiAbout,
  type UiItem,
  type UiKey,
  type UiSource,
  type UiTrial,
} from '@akrijs/ui'

interface StandaloneSourceOptions {
  readonly about: UiAbout
  readonly standalone: StandaloneAgent
  readonly brokers: Pick<BrokerSet, 'state'>
  /** Whether each handler runs in a process of its own. */
  readonly isolated: boolean
  readonly trial: UiTrial
}

/** What the page shows of the agent of this machine. */
export class StandaloneSource implements UiSource {
  readonly about: UiAbout
  readonly trial: UiTrial
  readonly #options: StandaloneSourceOptions
  readonly #brokerChanges = new Listeners<[instance: ObjectKey]>()

  constructor(options: StandaloneSourceOptions) {
    this.about = options.about
    this.trial = options.trial
    this.#options = options
  }

  *keys(): Generator<UiKey> {
    const { cluster } = this.#options.standalone
    yield PROBLEMS_KEY
    for (const name of this.#handlerNames()) yield handlerKey(name)
    for (const object of cluster.configurations.list()) yield configurationKey(keyOf(object))
    for (const object of cluster.instances.list()) yield deviceKey(keyOf(object))
    for (const { regarding } of cluster.events.list()) yield eventsKey(regarding)
  }

  item(key: UiKey): UiItem | undefined {
    const { cluster, problems } = this.#options.standalone
    const [, kind, name = ''] = /^([^/]+)\/(.*)$/s.exec(key) ?? []
    const objectKey = name as ObjectKey
    switch (kind) {
      case 'configuration': {
        const object = cluster.configurations.get(objectKey)
        return object && { kind, object }
      }
      case 'device': {
        const object = cluster.instances.get(objectKey)
        return object && { kind, object, broker: this.#options.brokers.state(objectKey) }
      }
      case 'events': {
        const events = cluster.events.list().filter(({ regarding }) => eventsKey(regarding) === key)
        return events.length === 0 ? undefined : { kind, events }
      }
      case 'handler':
        return this.#handler(name)
      case 'problems':
        return { kind, problems }
    }
    return undefined
  }

  onChange(listener: (key: UiKey) => void, signal: AbortSignal): void {
    const { cluster, agent, onProblems } = this.#options.standalone
    cluster.configurations.onChange((key) => listener(configurationKey(key)), signal)
    cluster.instances.onChange((key) => listener(deviceKey(key)), signal)
    cluster.events.onChange((regarding) => listener(eventsKey(regarding)), signal)
    agent.registry.onChange(({ name }) => listener(handlerKey(name)), signal)
    onProblems(() => listener(PROBLEMS_KEY), signal)
    this.#brokerChanges.add((instance) => listener(deviceKey(instance)), signal)
  }

  /** The state of the broker of an Instance changed. */
  brokerChanged(instance: ObjectKey): void {
    this.#brokerChanges.tell(instance)
  }

  #handlerNames(): Set<string> {
    const { handlers, agent } = this.#options.standalone
    return new Set([...handlers.map(({ name }) => name), ...agent.registry.names])
  }

  #handler(name: string): UiItem | undefined {
    const { handlers, agent } = this.#options.standalone
    const loaded = handlers.find((each) => each.name === name)
    const isConnected = agent.registry.endpoints(name).length > 0
    if (loaded === undefined && !isConnected) return undefined
    const own = this.#options.isolated ? 'in a process of its own' : 'in the agent'
    return {
      kind: 'handler',
      name,
      package: loaded && `${loaded.package} ${loaded.version}`,
      place: loaded === undefined ? 'a program that registered itself' : own,
      isConnected,
    }
  }
}
