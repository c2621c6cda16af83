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
    const identity = ['--identity', this.identity, '--lease-namespace', this.#namespace]
    this.launch({ METRICS_PORT: '0', ...this.#env }, identity)
    await eventually(() => {
      if (this.#turns === before)
        throw new Error(`${this.identity} does not lead: ${this.output.slice(-2000)}`)
    })
  }

  /** The metrics, in the Prometheus format. */
  async metrics(): Promise<string> {
    const ports = [...this.output.matchAll(/"metricsPort":([0-9]+)/g)]
    const response = await fetch(`http://127.0.0.1:${ports.at(-1)?.[1]}/metrics`)
    return response.text()
  }

  get #turns(): number {
    return this.output.split('this replica leads"').length
  }
}
