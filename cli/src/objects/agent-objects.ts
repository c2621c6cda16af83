import { API_VERSION, type Configuration, type Instance, type NodeReport } from '@akrijs/api'
import { keyOf, type NodeName, type ObjectEvent, type ObjectKey } from '@akrijs/kube'
import { systemClock } from '@akrijs/runtime'
import { askAgent } from '../control/control-client.js'
import type { ObjectSource, ShownEvent, SlotUse } from './object-source.js'

/** The state of the broker of an Instance, as the agent answers. */
interface BrokerAnswer {
  readonly instance: string
  readonly state?: { readonly phase: string; readonly reason?: string; readonly pid?: number }
}

/** The time between two questions for objects that are watched, in milliseconds. */
const POLL_MS = 1000

type EventAnswer = ObjectEvent & { readonly count: number; readonly lastTimestamp: string }

/** The objects of the agent of this machine, by its control socket. */
export class AgentObjects implements ObjectSource {
  readonly #socket: string

  constructor(socket: string) {
    this.#socket = socket
  }

  configurations(): Promise<readonly Configuration[]> {
    return this.#items(`/apis/${API_VERSION}/configurations`)
  }

  instances(): Promise<readonly Instance[]> {
    return this.#items(`/apis/${API_VERSION}/instances`)
  }

  /** One machine has no NodeReport: the statuses of its Configurations say the same. */
  async nodes(): Promise<readonly NodeReport[]> {
    const configurations = await this.configurations()
    const names = new Set(
      configurations.flatMap(({ status }) => Object.keys(status?.nodes ?? {}) as NodeName[]),
    )
    return [...names].sort().map((name) => reportOf(name, configurations))
  }

  async events(): Promise<readonly ShownEvent[]> {
    const events = await this.#items<EventAnswer>('/events')
    return events.map(({ regarding, ...event }) => ({ ...event, ...regarding }))
  }

  async uses(): Promise<ReadonlyMap<ObjectKey, readonly SlotUse[]>> {
    const [instances, brokers] = await Promise.all([this.instances(), this.#brokers()])
    return new Map(
      instances.map((instance) => {
        const { phase, pid } = brokers.get(instance.metadata.name) ?? {}
        const user = phase === 'running' ? `broker ${pid ?? ''}`.trimEnd() : ''
        const held = Object.entries(instance.spec.deviceUsage).filter(([, usage]) => usage !== '')
        return [keyOf(instance), user === '' ? [] : held.map(([slot]) => ({ slot, user }))]
      }),
    )
  }

  /** The agent is on this machine: a question each second costs nothing. */
  changed(): Promise<void> {
    return systemClock.sleep(POLL_MS)
  }

  async broker({ metadata }: Instance): Promise<string | undefined> {
    const state = (await this.#brokers()).get(metadata.name)
    return state && `${state.phase} ${state.pid ?? state.reason ?? ''}`.trimEnd()
  }

  async #brokers() {
    const brokers = await this.#items<BrokerAnswer>('/brokers')
    return new Map(brokers.map(({ instance, state }) => [instance, state]))
  }

  async #items<Item>(path: string): Promise<readonly Item[]> {
    return ((await askAgent(this.#socket, path)) as { items: Item[] }).items
  }
}

function reportOf(name: NodeName, configurations: readonly Configuration[]): NodeReport {
  const reported = configurations.flatMap((configuration) => {
    const status = configuration.status?.nodes[name]
    const { uid } = configuration.metadata
    return status === undefined ? [] : [[keyOf(configuration), { ...status, uid }] as const]
  })
  const isReady = ({ conditions }: (typeof reported)[number][1]) =>
    conditions.some(({ type, status }) => type === 'Ready' && status === 'True')
  return {
    apiVersion: API_VERSION,
    kind: 'NodeReport',
    metadata: {
      name,
      namespace: '',
      ...{ uid: '', generation: 0, resourceVersion: '', creationTimestamp: '' },
    },
    counts: {
      configurations: reported.length,
      ready: reported.filter(([, status]) => isReady(status)).length,
      devices: reported.reduce((sum, [, { devices }]) => sum + devices, 0),
    },
    configurations: Object.fromEntries(reported),
    memberships: {},
  }
}
