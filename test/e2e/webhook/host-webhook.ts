import { type ChildProcess, spawn } from 'node:child_process'
import net from 'node:net'
import path from 'node:path'
import { eventually } from '../support/world.js'

const root = path.join(import.meta.dirname, '../../..')
const program = path.join(root, 'webhook/dist/akri-webhook.js')

/** Where the API server of the tests reaches this machine. */
export const HOST = '10.99.0.1'

/** A replica of the webhook as a process of this machine. */
export class HostWebhook {
  readonly port: number
  readonly #metricsPort: number
  readonly #env: Readonly<Record<string, string>>
  #child: ChildProcess | undefined
  #output = ''

  private constructor(port: number, metricsPort: number, env: Readonly<Record<string, string>>) {
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

  /** What it has logged, of all its lives. */
  get output(): string {
    return this.#output
  }

  /** Resolves when it is ready. */
  async start(more: Readonly<Record<string, string>> = {}): Promise<void> {
    this.#child = spawn(process.execPath, [program], {
      env: {
        ...process.env,
        AKRI_WEBHOOK_PORT: String(this.port),
        METRICS_PORT: String(this.#metricsPort),
        AKRI_SERVER_NAMES: HOST,
        AKRI_HANDLERS: ['debug-echo', 'udev'].map((name) => path.join(root, 'handlers', name)).join(),
        AKRI_DRAIN: '0',
        ...this.#env,
        ...more,
      },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    this.#child.stderr?.on('data', (chunk) => {
      this.#output += String(chunk)
    })
    await eventually(async () => {
      const response = await fetch(`http://127.0.0.1:${this.#metricsPort}/readyz`)
      if (!response.ok) throw new Error(`${await response.text()}\n${this.#output}`)
    })
  }

  async metrics(): Promise<string> {
    return (await fetch(`http://127.0.0.1:${this.#metricsPort}/metrics`)).text()
  }

  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<number | null> {
    const child = this.#child
    this.#child = undefined
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return child?.exitCode ?? null
    const ended = new Promise<number | null>((resolve) => child.once('exit', (code) => resolve(code)))
    child.kill(signal)
    return ended
  }
}

async function freePort(): Promise<number> {
  const server = net.createServer()
  await new Promise<void>((resolve) => server.listen(0, resolve))
  const address = server.address()
  await new Promise((resolve) => server.close(resolve))
  if (address === null || typeof address === 'string') throw new TypeError('there is no free port')
  return address.port
}
