import { type ChildProcess, spawn } from 'node:child_process'
import path from 'node:path'

const root = path.join(import.meta.dirname, '../../..')

/** The built-in handlers, built from this clone. */
export const BUILT_HANDLERS = ['debug-echo', 'udev']
  .map((name) => path.join(root, 'handlers', name))
  .join()

/** A built program as a process of this machine. A test can kill it and read its log. */
export class HostProgram {
  readonly #file: string
  #child: ChildProcess | undefined
  #output = ''

  /** @param file the built program, such as `agent/dist/akri-agent.js` */
  constructor(file: string) {
    this.#file = path.join(root, file)
  }

  /** The log of all starts. */
  get output(): string {
    return this.#output
  }

  get pid(): number | undefined {
    return this.#child?.pid
  }

  /** Null while the process runs. */
  get exitCode(): number | null {
    return this.#child?.exitCode ?? null
  }

  /** @param env added to the environment of the tests */
  launch(env: Readonly<Record<string, string>>, args: readonly string[] = []): void {
    this.#child = spawn(process.execPath, [this.#file, ...args], {
      env: { ...process.env, ...env },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    this.#child.stderr?.on('data', (chunk) => {
      this.#output += String(chunk)
    })
  }

  /** Resolves when the process has ended. @returns the exit code; null after a signal */
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
