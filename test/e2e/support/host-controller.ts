import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import { HostProgram } from './host-program.js'
import { eventually } from './world.js'

/** A replica of the controller as a process of this machine. */
export class HostController extends HostProgram {
  readonly identity: string
  readonly #namespace: string
  readonly #env: Readonly<Record<string, string>>

  /** @param namespace of the Lease: replicas of one namespace elect one leader */
  constructor(identity: string, namespace: string, env: Readonly<Record<string, string>> = {}) {
    super('controller/dist/akri-controller.js')
    this.identity = identity
    this.#namespace = namespace
    this.#env = env
  }

  /** Resolves when this replica leads. */
  async lead(): Promise<void> {
    const before = this.#turns
    this.start()
    await eventually(() => {
      if (this.#turns === before)
        throw new Error(`${this.identity} does not lead: ${this.output.slice(-2000)}`)
    })
  }

  start(): void {
    this.launch({ METRICS_PORT: '0', ...this.#env }, [
      '--identity',
      this.identity,
      '--lease-namespace',
      this.#namespace,
    ])
  }

  /** The metrics, in the Prometheus format. */
  async metrics(): Promise<string> {
    const ports = [...this.output.matchAll(/"metricsPort":([0-9]+)/g)]
    const response = await fetch(`http://127.0.0.1:${ports.at(-1)?.[1]}/metrics`)
    return response.text()
  }

  /** The number of requests by method. */
  async requests(): Promise<Record<string, number>> {
    const found: Record<string, number> = {}
    for (const [, method = '', count] of (await this.metrics()).matchAll(
      /^akri_api_requests_total\{method="([A-Z]+)",status="[0-9]+"\} ([0-9]+)$/gm,
    ))
      found[method] = (found[method] ?? 0) + Number(count)
    return found
  }

  /**
   * Resolves when this replica has written nothing but its Lease for a while: the tests before have
   * left objects behind. @param ms longer than the controller waits before it writes
   */
  async settled(ms: number): Promise<void> {
    const writes = async () => {
      const { GET: _reads, PUT: _lease, ...others } = await this.requests()
      return others
    }
    await eventually(async () => {
      const before = await writes()
      await sleep(ms)
      expect(await writes()).toEqual(before)
    })
  }

  get #turns(): number {
    return this.output.split('this replica leads"').length
  }
}
