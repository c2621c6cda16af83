import { type ChildProcess, spawn } from 'node:child_process'
import path from 'node:path'
import { eventually } from './world.js'

const root = path.join(import.meta.dirname, '../../..')
const program = path.join(root, 'controller/dist/akri-controller.js')

/** A replica of the controller as a process of this machine. */
export class HostController {
  readonly identity: string
  readonly #namespace: string
  readonly #env: Readonly<Record<string, string>>
  #child: ChildProcess | undefined
  #output = ''

  /** @param namespace where the Lease is: replicas of one namespace are one controller */
  constructor(identity: string, namespace: string, env: Readonly<Record<string, string>> = {}) {
    this.identity = identity
    this.#namespace = namespace
    this.#env = env
  }

  /** What it has logged, of all its lives. */
  get output(): string {
    return this.#output
  }

  /** Resolves when it leads. */
  async lead(): Promise<void> {
    const before = this.#turns
    this.start()
    await eventually(() => {
      if (this.#turns === before) throw new Error(`${this.identity} does not lead: ${this.#output.slice(-2000)}`)
    })
  }

  start(): void {
    this.#child = spawn(process.execPath, [program, '--identity', this.identity, '--lease-namespace', this.#namespace], {
      env: { ...process.env, METRICS_PORT: '0', ...this.#env },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    this.#child.stderr?.on('data', (chunk) => {
      this.#output += String(chunk)
    })
  }

  /** What it counts, in Prometheus' text. */
  async metrics(): Promise<string> {
    const ports = [...this.#output.matchAll(/"metricsPort":([0-9]+)/g)]
    const response = await fetch(`http://127.0.0.1:${ports.at(-1)?.[1]}/metrics`)
    return response.text()
  }

  /** The requests that it has sent, by their methods. */
  async requests(): Promise<Record<string, number>> {
    const found: Record<string, number> = {}
    for (const [, method = '', count] of (await this.metrics()).matchAll(
      /^akri_api_requests_total\{method="([A-Z]+)",status="[0-9]+"\} ([0-9]+)$/gm,
    ))
      found[method] = (found[method] ?? 0) + Number(count)
    return found
  }

  /** Resolves when it has ended. @returns its exit code; null where a signal ended it */
  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<number | null> {
    const child = this.#child
    this.#child = undefined
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return child?.exitCode ?? null
    const ended = new Promise<number | null>((resolve) => child.once('exit', (code) => resolve(code)))
    child.kill(signal)
    return ended
  }

  get #turns(): number {
    return this.#output.split('this replica leads"').length
  }
}
