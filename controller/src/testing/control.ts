import type { ObjectEvent } from '@akrijs/kube'
import { silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import type { ClusterState } from '../cluster-state.js'
import { control } from '../controller.js'
import type { ControllerOptions } from '../term.js'
import { TestApi } from './api.js'
import { T0 } from './objects.js'

type Parts = Awaited<ReturnType<TestApi['start']>>

/** A controller that leads, on a fake API server. */
export class TestControl {
  readonly api = new TestApi()
  readonly clock: ManualClock
  /** The Events that were recorded. */
  readonly events: ObjectEvent[] = []
  #parts: Parts | undefined
  #turn = new AbortController()
  #work: Promise<void> | undefined

  /** @param wallMs the time of its clock */
  constructor(wallMs = T0) {
    this.clock = new ManualClock(wallMs)
  }

  get state(): ClusterState {
    return this.#started().state
  }

  /**
   * Leads with full caches.
   * @param parts its client and caches @default those of `api`
   */
  async start(options: Partial<ControllerOptions> = {}, parts?: Parts): Promise<void> {
    this.#parts = parts ?? (await this.api.start(this.clock))
    await this.lead(options)
  }

  /** Another replica takes over. */
  async lead(options: Partial<ControllerOptions> = {}): Promise<void> {
    await this.end()
    this.#turn = new AbortController()
    const events = { record: (event: ObjectEvent) => void this.events.push(event) }
    const defaults = { clock: this.clock, log: silentLogger, events, nodeGraceMs: 300_000 }
    this.#work = control({ ...this.#started(), ...defaults, ...options }, this.#turn.signal)
  }

  /** The replica does not lead any more. */
  async end(): Promise<void> {
    this.#turn.abort()
    await this.#work
  }

  async stop(): Promise<void> {
    await this.end()
    await this.api.stop()
  }

  #started() {
    if (this.#parts === undefined) throw new TypeError('the controller has not started')
    return this.#parts
  }
}
