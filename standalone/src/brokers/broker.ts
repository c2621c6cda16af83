import type { Instance } from '@akrijs/api'
import { keyOf } from '@akrijs/kube'
import { Backoff, untilAborted } from '@akrijs/runtime'
import { retry } from '../retry.js'
import type { BrokerCommand, BrokerGoal, BrokerPlan } from './broker-command.js'
import type { BrokerContext, BrokerOptions, BrokerState } from './broker-context.js'
import { runBroker } from './broker-run.js'
import type { JobEnd } from './finished-jobs.js'

/** A broker that ran for so long was no failure, in milliseconds. */
const STABLE_MS = 10_000

/** The broker of one Instance: a process of this machine that has slots as a Pod has. */
export class Broker {
  /** The uid of the Instance. */
  readonly uid: string
  /** The brokerSpec as JSON. */
  readonly spec: string
  readonly #instance: Instance['metadata']
  readonly #options: BrokerOptions
  readonly #context: BrokerContext
  readonly #stop = new AbortController()
  readonly #running: Promise<void>
  #state: BrokerState = { phase: 'waiting', reason: 'starting' }

  constructor(
    instance: Instance,
    spec: string,
    plan: BrokerPlan,
    options: BrokerOptions,
    context: BrokerContext,
  ) {
    this.uid = instance.metadata.uid
    this.spec = spec
    this.#instance = instance.metadata
    this.#options = options
    this.#context = context
    this.#running = this.#follow(plan)
  }

  get state(): BrokerState {
    return this.#state
  }

  async close(): Promise<void> {
    this.#stop.abort()
    await this.#running
  }

  async #follow(plan: BrokerPlan): Promise<void> {
    if (plan.kind === 'none') {
      const { reason } = plan
      this.#setState({ phase: 'none', reason })
      this.#options.log.warn({ instance: this.#instance.name, reason }, 'no broker started')
    } else if (plan.kind === 'wrong') {
      const { path, message } = plan.problem
      this.#setState({ phase: 'none', reason: `${path}: ${message}` })
      this.#context.refuse(plan.problem)
    } else {
      const { previous } = this.#context
      if (previous !== undefined) await this.#waitFor(previous)
      if (plan.goal.kind === 'forever') await this.#runForever(plan.command)
      else await this.#runJob(plan.command, plan.goal)
    }
  }

  async #waitFor(previous: Promise<unknown>): Promise<void> {
    this.#setState({ phase: 'waiting', reason: 'for the end of the previous broker' })
    await untilAborted(previous, this.#stop.signal)
  }

  /** As the broker of a Pod: it is restarted after each end. */
  async #runForever(command: BrokerCommand): Promise<void> {
    const restarts = new Backoff()
    while (!this.#stop.signal.aborted) {
      const { reason, ranMs } = await this.#run(command)
      if (ranMs >= STABLE_MS) restarts.reset()
      await this.#wait(restarts, reason)
    }
  }

  async #runJob(
    command: BrokerCommand,
    { completions, backoffLimit }: Extract<BrokerGoal, { readonly kind: 'completions' }>,
  ): Promise<void> {
    const { finished, log } = this.#options
    const { name } = this.#instance
    const recorded = finished.get(this.uid, this.spec)
    if (recorded !== undefined) return this.#setState(stateOf(recorded))
    const restarts = new Backoff()
    let succeeded = 0
    let failed = 0
    while (succeeded < completions && !this.#stop.signal.aborted) {
      const end = await this.#run(command)
      if (this.#stop.signal.aborted) return
      if (end.succeeded) succeeded++
      else if (++failed > backoffLimit) {
        log.warn({ broker: name, reason: end.reason, failed }, 'job failed')
        return this.#finish({ outcome: 'failed', reason: end.reason })
      } else await this.#wait(restarts, end.reason)
    }
    if (this.#stop.signal.aborted) return
    log.info({ broker: name }, 'job completed')
    await this.#finish({ outcome: 'completed' })
  }

  #run(command: BrokerCommand) {
    return runBroker(command, {
      ...this.#options,
      instance: this.#instance,
      context: this.#context,
      signal: this.#stop.signal,
      setState: (state) => this.#setState(state),
    })
  }

  async #wait(restarts: Backoff, reason: string): Promise<void> {
    if (this.#stop.signal.aborted) return
    const { clock, log } = this.#options
    const retryInMs = restarts.next()
    this.#setState({ phase: 'waiting', reason })
    log.info({ broker: this.#instance.name, reason, retryInMs }, 'broker not running')
    await clock.sleep(retryInMs, this.#stop.signal).catch(() => undefined)
  }

  async #finish(end: JobEnd): Promise<void> {
    const { finished, clock, log } = this.#options
    this.#setState(stateOf(end))
    // A disk may be full.
    await retry(() => finished.add(this.uid, this.spec, end), {
      clock,
      signal: this.#stop.signal,
      onFailure: (fields) =>
        log.warn(
          { broker: this.#instance.name, file: finished.file, ...fields },
          'end of job not recorded: if this agent ends now, the next agent runs the job again',
        ),
    })
  }

  #setState(state: BrokerState): void {
    this.#state = state
    this.#options.onChange(keyOf({ metadata: this.#instance }))
  }
}

function stateOf(end: JobEnd): BrokerState {
  return end.outcome === 'completed'
    ? { phase: 'completed' }
    : { phase: 'failed', reason: end.reason }
}
