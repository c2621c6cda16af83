import { configurationOf, GROUP, type Problem } from '@akrijs/api'
import { keyOf, type ObjectKey } from '@akrijs/kube'
import type { StandaloneAgent } from '../standalone.js'
import { Broker } from './broker.js'
import { planBroker } from './broker-command.js'
import type { BrokerOptions, BrokerState } from './broker-context.js'

export interface BrokerSetOptions extends BrokerOptions {
  readonly standalone: Pick<StandaloneAgent, 'cluster' | 'kubelet' | 'sourceOf'>
}

/**
 * The brokers of this machine: one for each Instance whose Configuration has a brokerSpec with a
 * command. A cluster has one Pod for each node of an Instance, or one Job for each Instance.
 * Brokers take slots as Pods do, so that no more brokers run than the capacity allows.
 */
export class BrokerSet {
  readonly #options: BrokerSetOptions
  readonly #brokers = new Map<ObjectKey, Broker>()
  readonly #stop = new AbortController()
  /** The ends of the brokers that each Instance had before. */
  readonly #endings = new Map<ObjectKey, Promise<unknown>>()
  /** The problems that were logged for the present brokerSpec of each Configuration. */
  readonly #logged = new Map<ObjectKey, { readonly spec: string; readonly problems: Set<string> }>()
  #runs = 0

  constructor(options: BrokerSetOptions) {
    this.#options = options
  }

  start(): void {
    const { cluster } = this.#options.standalone
    cluster.instances.onChange((key) => this.#follow(key), this.#stop.signal)
    cluster.configurations.onChange((key) => {
      if (cluster.configurations.get(key) === undefined) this.#logged.delete(key)
      for (const instance of cluster.instances.list())
        if (configurationOf(instance) === key) this.#follow(keyOf(instance))
    }, this.#stop.signal)
    this.#options.finished.keepOnly(
      new Set(cluster.instances.list().map(({ metadata }) => metadata.uid)),
    )
    for (const instance of cluster.instances.list()) this.#follow(keyOf(instance))
  }

  state(instance: ObjectKey): BrokerState | undefined {
    return this.#brokers.get(instance)?.state
  }

  async close(): Promise<void> {
    this.#stop.abort()
    for (const key of [...this.#brokers.keys()]) this.#end(key)
    await Promise.all(this.#endings.values())
  }

  #follow(key: ObjectKey): void {
    if (this.#stop.signal.aborted) return
    const { cluster } = this.#options.standalone
    const instance = cluster.instances.get(key)
    const configuration = instance && cluster.configurations.get(configurationOf(instance))
    const brokerSpec = configuration?.spec.brokerSpec
    const text = JSON.stringify(brokerSpec)
    const before = this.#brokers.get(key)
    // Claims change all the time; only another Instance or another spec needs another broker.
    if (before !== undefined && before.uid === instance?.metadata.uid && before.spec === text)
      return
    this.#end(key)
    if (instance === undefined || brokerSpec === undefined) return
    const plan = planBroker(brokerSpec, `${GROUP}/${instance.metadata.name}`)
    const context = {
      nextRun: () => ++this.#runs,
      capacity: () => cluster.instances.get(key)?.spec.capacity,
      refuse: (problem: Problem) => this.#refuse(configurationOf(instance), text, problem),
      closing: this.#stop.signal,
      previous: this.#endOfPrevious(key),
    }
    this.#brokers.set(key, new Broker(instance, text, plan, this.#options, context))
  }

  /** Logs a problem once for all brokers of a Configuration, until its brokerSpec changes. */
  #refuse(configuration: ObjectKey, spec: string, { path, message }: Problem): void {
    const { log, standalone } = this.#options
    const before = this.#logged.get(configuration)
    const logged = before?.spec === spec ? before : { spec, problems: new Set<string>() }
    this.#logged.set(configuration, logged)
    const problem = `${path}: ${message}`
    if (logged.problems.has(problem)) return
    logged.problems.add(problem)
    const source = standalone.sourceOf(configuration)
    log.error(
      { file: source?.file, ...source?.placeOf(path), path, error: message },
      'broker cannot run',
    )
  }

  /** The end of all brokers that an Instance had before; undefined if it had none. */
  #endOfPrevious(key: ObjectKey): Promise<unknown> | undefined {
    const { ledger, clock } = this.#options
    const ending = this.#endings.get(key)
    if (!ledger.hasLeftover(key)) return ending
    return Promise.all([ending, ledger.untilEnded(key, clock, this.#stop.signal)])
  }

  #end(key: ObjectKey): void {
    const broker = this.#brokers.get(key)
    if (broker === undefined) return
    this.#brokers.delete(key)
    // A broker that waits for the end of an earlier one ends first.
    const ending = Promise.all([this.#endings.get(key), broker.close()]).finally(() => {
      if (this.#endings.get(key) === ending) this.#endings.delete(key)
    })
    this.#endings.set(key, ending)
  }
}
