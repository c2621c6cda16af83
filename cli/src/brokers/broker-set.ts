import type { StandaloneAgent } from '@akrijs/agent/standalone'
import { type Configuration, GROUP, type Instance, keyOf, type ObjectKey, objectKey } from '@akrijs/kube'
import { type Clock, type Logger, messageOf } from '@akrijs/sdk'
import { Backoff } from '@akrijs/sdk/host'
import { type BrokerCommand, brokerEnvironment, expand, planBroker } from './broker-command.js'
import type { BrokerLedger } from './broker-ledger.js'
import { BrokerProcess } from './broker-process.js'

export interface BrokerSetOptions {
  readonly standalone: Pick<StandaloneAgent, 'cluster' | 'kubelet'>
  readonly ledger: BrokerLedger
  readonly clock: Clock
  readonly log: Logger
  readonly environment: Readonly<Record<string, string | undefined>>
  onLine(broker: string, line: string): void
  /** A broker began, ended or waits. */
  onChange(): void
}

export type BrokerState =
  | { readonly phase: 'waiting'; readonly reason: string }
  | { readonly phase: 'running'; readonly pid: number | undefined }
  /** Nothing will run, for this reason. */
  | { readonly phase: 'none'; readonly reason: string }

/** A broker that has run this long was no failure, in milliseconds. */
const STABLE_MS = 10_000

/**
 * The brokers of this machine: one for each Instance whose Configuration has a brokerPodSpec with a command, as in a cluster
 * each node that sees a device has one. It gets a slot as a Pod would, and so never more run than the capacity allows.
 */
export class BrokerSet {
  readonly #options: BrokerSetOptions
  readonly #brokers = new Map<ObjectKey, Broker>()
  readonly #stop = new AbortController()
  readonly #ending = new Set<Promise<void>>()
  #lives = 0

  constructor(options: BrokerSetOptions) {
    this.#options = options
  }

  start(): void {
    const { cluster } = this.#options.standalone
    cluster.instances.onChange((key) => this.#follow(key), this.#stop.signal)
    cluster.configurations.onChange((key) => {
      for (const instance of cluster.instances.list()) if (configurationOf(instance) === key) this.#follow(keyOf(instance))
    }, this.#stop.signal)
    for (const instance of cluster.instances.list()) this.#follow(keyOf(instance))
  }

  state(instance: ObjectKey): BrokerState | undefined {
    return this.#brokers.get(instance)?.state
  }

  async close(): Promise<void> {
    this.#stop.abort()
    for (const key of [...this.#brokers.keys()]) this.#end(key)
    await Promise.all(this.#ending)
  }

  #follow(key: ObjectKey): void {
    if (this.#stop.signal.aborted) return
    const { cluster } = this.#options.standalone
    const instance = cluster.instances.get(key)
    const configuration = instance && cluster.configurations.get(configurationOf(instance))
    const spec = configuration && podSpecOf(configuration)
    const text = instance && spec && JSON.stringify(spec)
    const before = this.#brokers.get(key)
    // Slots come and go all the time; only another Instance or another spec is another broker.
    if (before !== undefined && before.uid === instance?.metadata.uid && before.text === text) return
    this.#end(key)
    if (instance === undefined || spec === undefined || text === undefined) return
    this.#brokers.set(key, new Broker(instance, spec, text, this.#options, () => ++this.#lives))
  }

  #end(key: ObjectKey): void {
    const broker = this.#brokers.get(key)
    if (broker === undefined) return
    this.#brokers.delete(key)
    const ending = broker.close()
    this.#ending.add(ending)
    void ending.finally(() => this.#ending.delete(ending))
  }
}

class Broker {
  readonly uid: string
  readonly text: string
  state: BrokerState = { phase: 'waiting', reason: 'starting' }
  readonly #name: string
  readonly #namespace: string
  readonly #options: BrokerSetOptions
  readonly #stop = new AbortController()
  readonly #running: Promise<void>
  /** A number that no other life of any broker has: the one before may still be ending when the next is admitted. */
  readonly #nextLife: () => number

  constructor(
    instance: Instance,
    podSpec: Readonly<Record<string, unknown>>,
    text: string,
    options: BrokerSetOptions,
    nextLife: () => number,
  ) {
    this.#nextLife = nextLife
    this.uid = instance.metadata.uid
    this.text = text
    this.#name = instance.metadata.name
    this.#namespace = instance.metadata.namespace
    this.#options = options
    const plan = planBroker(podSpec, `${GROUP}/${this.#name}`)
    if (plan.kind === 'run') this.#running = this.#run(plan.command)
    else {
      this.#running = Promise.resolve()
      this.#become({ phase: 'none', reason: plan.reason })
      options.log.warn({ instance: this.#name, reason: plan.reason }, 'no broker is started')
    }
  }

  async close(): Promise<void> {
    this.#stop.abort()
    await this.#running
  }

  async #run(command: BrokerCommand): Promise<void> {
    const { clock, log } = this.#options
    const backoff = new Backoff()
    while (!this.#stop.signal.aborted) {
      const begun = clock.now()
      const reason = await this.#once(command, `${this.#name}-pod-${this.#nextLife()}`)
      if (this.#stop.signal.aborted) return
      if (clock.now() - begun >= STABLE_MS) backoff.reset()
      const waitMs = backoff.next()
      this.#become({ phase: 'waiting', reason })
      log.info({ broker: this.#name, reason, retryInMs: waitMs }, 'broker is not running')
      await clock.sleep(waitMs, this.#stop.signal).catch(() => undefined)
    }
  }

  /** One life of the broker. @returns why it is over */
  async #once({ container, file, args, env, workingDirectory, resources }: BrokerCommand, uid: string): Promise<string> {
    const { clock, log, environment, ledger, standalone, onLine } = this.#options
    const { kubelet } = standalone
    try {
      await this.#untilFree(resources)
      if (this.#stop.signal.aborted) return 'stopped'
      const admitted = await kubelet.admit({
        uid,
        name: `${this.#name}-pod`,
        namespace: this.#namespace,
        containers: [{ name: container, resources }],
      })
      if (this.#stop.signal.aborted) return 'stopped'
      const whole = brokerEnvironment(admitted.get(container)?.envs ?? {}, env, environment)
      const process = new BrokerProcess({
        file: expand(file, whole),
        args: args.map((arg) => expand(arg, whole)),
        env: whole,
        workingDirectory,
        clock,
        onLine: (line) => onLine(this.#name, line),
      })
      const over = new AbortController()
      try {
        if (process.pid !== undefined) {
          ledger.add(process.pid)
          this.#become({ phase: 'running', pid: process.pid })
          log.info({ broker: this.#name, pid: process.pid }, 'broker started')
        }
        const stopped = aborted(this.#stop.signal, over.signal)
        return await Promise.race([process.ended, stopped.then(() => 'stopped')])
      } finally {
        over.abort()
        // Also where the ledger cannot be written: what nobody knows of must not go on.
        await process.stop()
        if (process.pid !== undefined) ledger.remove(process.pid)
      }
    } catch (error) {
      return messageOf(error)
    } finally {
      kubelet.remove(uid)
    }
  }

  /** As a Pod waits for a node that has what it asks for. */
  async #untilFree(resources: Readonly<Record<string, number>>): Promise<void> {
    const { kubelet } = this.#options.standalone
    const missing = () =>
      Object.entries(resources).find(([name, count]) => {
        const { allocatable, allocated } = kubelet.resource(name)
        return allocatable - allocated < count
      })
    for (let short = missing(); short !== undefined && !this.#stop.signal.aborted; short = missing()) {
      this.#become({ phase: 'waiting', reason: `for ${short[1]} of ${short[0]}` })
      const changed = new AbortController()
      await new Promise<void>((resolve) => {
        kubelet.onChange(resolve, changed.signal)
        this.#stop.signal.addEventListener('abort', () => resolve(), { once: true, signal: changed.signal })
      })
      changed.abort()
    }
  }

  #become(state: BrokerState): void {
    this.state = state
    this.#options.onChange()
  }
}

function podSpecOf({ spec }: Configuration): Readonly<Record<string, unknown>> | undefined {
  return spec.brokerSpec !== undefined && 'brokerPodSpec' in spec.brokerSpec ? spec.brokerSpec.brokerPodSpec : undefined
}

function configurationOf({ metadata, spec }: Instance): ObjectKey {
  return objectKey(metadata.namespace, spec.configurationName)
}

/** Resolves when the signal is aborted; listens only until `until` is. */
function aborted(signal: AbortSignal, until: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve()
    signal.addEventListener('abort', () => resolve(), { once: true, signal: until })
  })
}
