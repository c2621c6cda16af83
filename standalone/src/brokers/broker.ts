import { GROUP, type Instance, type Problem } from '@akrijs/api'
import { aborted, Backoff, backoff, type Clock, type Logger, messageOf } from '@akrijs/runtime'
import type { StandaloneAgent } from '../standalone.js'
import {
  type BrokerCommand,
  type BrokerPlan,
  brokerEnvironment,
  expand,
  withoutMounts,
} from './broker-command.js'
import type { BrokerLedger } from './broker-ledger.js'
import { type BrokerEnd, BrokerProcess } from './broker-process.js'
import type { FinishedJobs, JobEnd } from './finished-jobs.js'

export interface BrokerOptions {
  readonly standalone: Pick<StandaloneAgent, 'kubelet'>
  readonly ledger: BrokerLedger
  readonly finished: FinishedJobs
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
  /** A Job that is done. */
  | { readonly phase: 'completed' }
  /** A Job that failed more often than it may. */
  | { readonly phase: 'failed'; readonly reason: string }
  /** Nothing will run, for this reason. */
  | { readonly phase: 'none'; readonly reason: string }

/** What a broker asks of the set that it is in. */
export interface BrokerPlace {
  /** A number that no other life of any broker has: the one before may still be ending when the next is admitted. */
  nextLife(): number
  /** Of its Instance at present; undefined where that is gone. */
  capacity(): number | undefined
  /** Tells what is wrong with its Configuration. */
  refuse(problem: Problem): void
}

/** One that waits longer than this for a slot says so, in milliseconds. */
const LONG_WAIT_MS = 5000

/** A broker that has run this long was no failure, in milliseconds. */
const STABLE_MS = 10_000

const STOPPED = { succeeded: false, reason: 'stopped', ranMs: 0 }

/** One life of a broker, and how long its process ran in it. */
interface Life extends BrokerEnd {
  readonly ranMs: number
}

/** The broker of one Instance: a process of this machine, with a slot of its own as a Pod has it. */
export class Broker {
  /** Of its Instance. */
  readonly uid: string
  /** The brokerSpec as JSON. */
  readonly spec: string
  readonly #name: string
  readonly #namespace: string
  readonly #options: BrokerOptions
  readonly #stop = new AbortController()
  readonly #running: Promise<void>
  readonly #place: BrokerPlace
  #state: BrokerState = { phase: 'waiting', reason: 'starting' }

  constructor(
    instance: Instance,
    spec: string,
    plan: BrokerPlan,
    options: BrokerOptions,
    place: BrokerPlace,
  ) {
    this.#place = place
    this.uid = instance.metadata.uid
    this.spec = spec
    this.#name = instance.metadata.name
    this.#namespace = instance.metadata.namespace
    this.#options = options
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
      this.#become({ phase: 'none', reason: plan.reason })
      this.#options.log.warn({ instance: this.#name, reason: plan.reason }, 'no broker is started')
    } else if (plan.kind === 'wrong') {
      const { path, message } = plan.problem
      this.#become({ phase: 'none', reason: `${path}: ${message}` })
      this.#place.refuse(plan.problem)
    } else if (plan.goal.kind === 'forever') await this.#runForever(plan.command)
    else await this.#runJob(plan.command, plan.goal)
  }

  /** As a Pod's broker: whenever it ends it is started again, sooner or later. */
  async #runForever(command: BrokerCommand): Promise<void> {
    const backoff = new Backoff()
    while (!this.#stop.signal.aborted) {
      const { reason, ranMs } = await this.#live(command)
      if (ranMs >= STABLE_MS) backoff.reset()
      await this.#waitFor(backoff, reason)
    }
  }

  async #runJob(
    command: BrokerCommand,
    goal: { readonly completions: number; readonly backoffLimit: number },
  ): Promise<void> {
    const { finished, log } = this.#options
    const before = finished.get(this.uid, this.spec)
    if (before !== undefined)
      return this.#become(
        before.outcome === 'completed'
          ? { phase: 'completed' }
          : { phase: 'failed', reason: before.reason },
      )
    const backoff = new Backoff()
    let succeeded = 0
    let failed = 0
    while (succeeded < goal.completions) {
      const { succeeded: well, reason } = await this.#live(command)
      if (this.#stop.signal.aborted) return
      if (well) succeeded++
      else if (++failed > goal.backoffLimit) {
        log.warn({ broker: this.#name, reason, failed }, 'job failed')
        return this.#end({ outcome: 'failed', reason })
      } else await this.#waitFor(backoff, reason)
      if (this.#stop.signal.aborted) return
    }
    log.info({ broker: this.#name }, 'job completed')
    await this.#end({ outcome: 'completed' })
  }

  async #waitFor(backoff: Backoff, reason: string): Promise<void> {
    if (this.#stop.signal.aborted) return
    const waitMs = backoff.next()
    this.#become({ phase: 'waiting', reason })
    this.#options.log.info(
      { broker: this.#name, reason, retryInMs: waitMs },
      'broker is not running',
    )
    await this.#options.clock.sleep(waitMs, this.#stop.signal).catch(() => undefined)
  }

  async #live(command: BrokerCommand): Promise<Life> {
    const { container, at, file, args, env, workingDirectory, resources } = command
    const { clock, environment, standalone, onLine } = this.#options
    const { kubelet } = standalone
    const uid = `${this.#name}-pod-${this.#place.nextLife()}`
    let begun = clock.monotonicMs()
    try {
      await this.#untilFree(command)
      if (this.#stop.signal.aborted) return STOPPED
      const admitted = await kubelet.admit({
        uid,
        name: `${this.#name}-pod`,
        namespace: this.#namespace,
        containers: [{ name: container, resources }],
      })
      if (this.#stop.signal.aborted) return STOPPED
      const options = admitted.get(container)
      const whole = brokerEnvironment(
        options === undefined ? {} : withoutMounts(options),
        env,
        environment,
      )
      begun = clock.monotonicMs()
      const process = new BrokerProcess({
        file: expand(file, whole),
        args: args.map((arg) => expand(arg, whole)),
        env: whole,
        workingDirectory,
        clock,
        onLine: (line) => onLine(this.#name, line),
      })
      const end = await this.#untilEnd(process)
      if (end.field !== undefined)
        this.#place.refuse({ path: `${at}.${end.field}`, message: end.reason })
      return { ...end, ranMs: clock.monotonicMs() - begun }
    } catch (error) {
      return { succeeded: false, reason: messageOf(error), ranMs: clock.monotonicMs() - begun }
    } finally {
      kubelet.remove(uid)
    }
  }

  async #untilEnd(process: BrokerProcess): Promise<BrokerEnd> {
    const { ledger, log } = this.#options
    const over = new AbortController()
    let noted = Promise.resolve()
    try {
      if (process.pid !== undefined) {
        noted = this.#note(process.pid, over.signal)
        this.#become({ phase: 'running', pid: process.pid })
        log.info({ broker: this.#name, pid: process.pid }, 'broker started')
      }
      return await Promise.race([
        process.ended,
        aborted(this.#stop.signal, over.signal).then(() => STOPPED),
      ])
    } finally {
      over.abort()
      await process.stop()
      await noted
      if (process.pid !== undefined) ledger.remove(process.pid)
    }
  }

  /** Writes it down for the agent after this one. A full disk is no reason to end what runs. */
  #note(pid: number, signal: AbortSignal): Promise<void> {
    const { ledger } = this.#options
    const consequence =
      'broker cannot be written down: if this agent is killed now, the next one will not end it'
    return this.#untilWritten(
      () => ledger.add(pid),
      { file: ledger.file, pid },
      consequence,
      signal,
    )
  }

  async #end(end: JobEnd): Promise<void> {
    const { finished } = this.#options
    this.#become(
      end.outcome === 'completed'
        ? { phase: 'completed' }
        : { phase: 'failed', reason: end.reason },
    )
    const consequence =
      'end of a job cannot be written down: if this agent ends now, the next one will run it again'
    const write = () => finished.add(this.uid, this.spec, end)
    await this.#untilWritten(write, { file: finished.file }, consequence, this.#stop.signal)
  }

  async #untilWritten(
    write: () => void,
    fields: { readonly file: string; readonly pid?: number },
    consequence: string,
    signal: AbortSignal,
  ): Promise<void> {
    const { clock, log } = this.#options
    for (const retryInMs of backoff()) {
      try {
        write()
        return
      } catch (error) {
        log.warn({ broker: this.#name, ...fields, err: error, retryInMs }, consequence)
      }
      await clock.sleep(retryInMs, signal).catch(() => undefined)
      if (signal.aborted) return
    }
  }

  /** As a Pod waits for a node that has what it asks for. */
  async #untilFree(command: BrokerCommand): Promise<void> {
    const { clock, log, standalone } = this.#options
    const { kubelet } = standalone
    const missing = () =>
      Object.entries(command.resources)
        .map(([name, count]) => ({ name, count, ...kubelet.resource(name) }))
        .find(({ count, allocatable, allocated }) => allocatable - allocated < count)
    let short = missing()
    if (short === undefined) return
    const over = new AbortController()
    const long = clock.sleep(LONG_WAIT_MS, over.signal).then(
      () => {
        if (short === undefined) return
        const { name: resource, count: wanted, allocatable, allocated } = short
        log.warn(
          { broker: this.#name, resource, wanted, allocatable, allocated },
          'broker waits for a slot',
        )
      },
      () => {
        // It did not have to wait long.
      },
    )
    for (; short !== undefined && !this.#stop.signal.aborted; short = missing()) {
      this.#become({ phase: 'waiting', reason: `for ${short.count} of ${short.name}` })
      this.#checkCapacity(command, short)
      const changed = new AbortController()
      const free = new Promise<void>((resolve) => kubelet.onChange(resolve, changed.signal))
      await Promise.race([free, aborted(this.#stop.signal, changed.signal)])
      changed.abort()
    }
    over.abort()
    await long
  }

  /** More than a device has slots can never be had, however long it waits. */
  #checkCapacity(
    { resourcesAt }: BrokerCommand,
    { name, count }: { readonly name: string; readonly count: number },
  ): void {
    const path = resourcesAt[name]
    const capacity = this.#place.capacity()
    if (
      path === undefined ||
      capacity === undefined ||
      name !== `${GROUP}/${this.#name}` ||
      count <= capacity
    )
      return
    this.#place.refuse({
      path,
      message: `${count} is more than spec.capacity, which is ${capacity}: such a broker can never run; ask for less, or raise spec.capacity`,
    })
  }

  #become(state: BrokerState): void {
    this.#state = state
    this.#options.onChange()
  }
}
