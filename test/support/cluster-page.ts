import { spawn } from 'node:child_process'
import path from 'node:path'

const AKRI = path.join(import.meta.dirname, '../../cli/dist/akri.js')

/** The program `akri ui`. */
export class ClusterPage {
  readonly #child
  #output = ''

  /** @param env added to the environment of the tests */
  constructor(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
    this.#child = spawn(process.execPath, [AKRI, 'ui', ...args], {
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    for (const stream of [this.#child.stdout, this.#child.stderr])
      stream.on('data', (chunk) => {
        this.#output += String(chunk)
      })
  }

  get output(): string {
    return this.#output
  }

  /** Resolves when the program has ended. @returns its exit code; null if a signal ended it */
  async ended(): Promise<number | null> {
    const { exitCode, signalCode } = this.#child
    if (exitCode !== null || signalCode !== null) return exitCode
    return new Promise((resolve) => this.#child.once('exit', (code) => resolve(code)))
  }

  async stop(): Promise<number | null> {
    this.#child.kill('SIGTERM')
    return this.ended()
  }
}
