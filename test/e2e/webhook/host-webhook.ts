import { freePort } from '../../support/free-port.js'
import { BUILT_HANDLERS, HostProgram } from '../support/host-program.js'
import { HOST } from '../support/nodes.js'
import { eventually } from '../support/world.js'

/** A replica of the webhook as a process of this machine. */
export class HostWebhook extends HostProgram {
  readonly port: number
  readonly #metricsPort: number
  readonly #env: Readonly<Record<string, string>>

  private constructor(port: number, metricsPort: number, env: Readonly<Record<string, string>>) {
    super('webhook/dist/akri-webhook.js')
    this.port = port
    this.#metricsPort = metricsPort
    this.#env = env
  }

  static async create(env: Readonly<Record<string, string>>): Promise<HostWebhook> {
    return new HostWebhook(await freePort(), await freePort(), env)
  }

  get url(): string {
    return `https://${HOST}:${this.port}/validate`
  }

  /** Resolves when it is ready. */
  async start(): Promise<void> {
    this.launch({
      AKRI_WEBHOOK_PORT: String(this.port),
      METRICS_PORT: String(this.#metricsPort),
      AKRI_SERVER_NAMES: HOST,
      AKRI_HANDLERS: BUILT_HANDLERS,
      AKRI_DRAIN: '0',
      ...this.#env,
    })
    await eventually(async () => {
      const response = await fetch(`http://127.0.0.1:${this.#metricsPort}/readyz`)
      if (!response.ok) throw new Error(`${await response.text()}\n${this.output}`)
    })
  }

  async metrics(): Promise<string> {
    return (await fetch(`http://127.0.0.1:${this.#metricsPort}/metrics`)).text()
  }
}
