import { type ChildProcess, spawn } from 'node:child_process'
import path from 'node:path'
import { LogLines } from '../../support/log-lines.js'
import { followLog } from './server-warnings.js'

const root = path.join(import.meta.dirname, '../../..')

/** The built-in handlers, built from this clone. */
export const BUILT_HANDLERS = ['debug-echo', 'udev']
  .map((name) => path.join(root, 'handlers', name))
  .join()

/** A built program as a process of this machine. A test can kill it and read its log. */
export class HostProgram {
  /** What programs of this clone wrote besides lines of their logs, in this test file. */
  static readonly strayLines: string[] = []
  readonly #command: readonly string[]
  #child: ChildProcess | undefined
  #output = ''

  /**
   * @param file the built program, such as `agent/dist/akri-agent.js`
   * @param prefix a command that becomes the command after it
   */
  constructor(file: string, prefix: readonly string[] = []) {
    this.#command = [...prefix, process.execPath, path.resolve(root, file)]
    followLog(() => this.#output)
  }

  /** The log of all starts. */
  get output(): string {
    return this.#output
  }

  get pid(): number | undefined {
    return this.#child?.pid
  }

  /** @param env added to the environment of the tests */
  launch(env: Readonly<Record<string, string>>, args: readonly string[] = []): void {
    const [command = '', ...rest] = this.#command
    this.#child = spawn(command, [...rest, ...args], {
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    this.#child.stderr?.on('data', (chunk) => {
      this.#output += String(chunk)
    })
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      const lines = new LogLines(HostProgram.strayLines)
      stream?.on('data', (chunk: Buffer) => lines.add(chunk))
    }
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
