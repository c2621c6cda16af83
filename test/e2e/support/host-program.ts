import { type ChildProcess, spawn } from 'node:child_process'
import path from 'node:path'

const root = path.join(import.meta.dirname, '../../..')

/** The handlers that come with akri.js, as they are built in this clone. */
export const BUILT_HANDLERS = ['debug-echo', 'udev']
  .map((name) => path.join(root, 'handlers', name))
  .join()

/** One of the programs as a process of this machine, so that a test can kill it, and read what it says. */
export class HostProgram {
  readonly #file: string
  #child: ChildProcess | undefined
  #output = ''

  /** @param file what is built of the program, such as `agent/dist/akri-agent.js` */
  constructor(file: string) {
    this.#file = path.join(root, file)
  }

  /** What it has logged, of all its lives. */
  get output(): string {
    return this.#output
  }

  get pid(): number | undefined {
    return this.#child?.pid
  }

  /** Null as long as it runs. */
  get exitCode(): number | null {
    return this.#child?.exitCode ?? null
  }

  /** @param env beside that of the tests */
  launch(env: Readonly<Record<string, string>>, args: readonly string[] = []): void {
    this.#child = spawn(process.execPath, [this.#file, ...args], {
      env: { ...process.env, ...env },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    this.#child.stderr?.on('data', (chunk) => {
      this.#output += String(chunk)
    })
  }

  /** Resolves when it has ended. @returns its exit code; null where a signal ended it */
  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<number | null> {
    const child = this.#child
    this.#child = undefined
    if (child === undefined || child.exitCode !== null || child.signalCode !== null)
      return child?.exitCode ?? null
    const ended = new Promise<number | null>((resolve) =>
      child.once('exit', (code) => resolve(code)),
    )
    child.kill(signal)
    return ended
  }
}
