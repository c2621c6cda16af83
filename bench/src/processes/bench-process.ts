import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import type { Commands, Message } from './protocol.js'

/** The flag of the images. */
const V8_FLAG = '--max-semi-space-size=2'

type Waiting = { resolve(value: unknown): void; reject(error: Error): void }

/** A process of the bench: some agents, or the controller. */
export class BenchProcess {
  readonly #child: ChildProcess
  readonly #waiting = new Map<number, Waiting>()
  #nextId = 0
  #log = ''

  /** @param file a bundle that serves commands */
  constructor(
    file: string,
    args: readonly string[] = [],
    env: Readonly<Record<string, string>> = {},
  ) {
    this.#child = fork(file, args, {
      env: { ...process.env, ...env },
      execArgv: [V8_FLAG],
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    })
    this.#child.stderr?.on('data', (chunk) => {
      this.#log = (this.#log + String(chunk)).slice(-20_000)
    })
    this.#child.on('message', (message: Message) => this.#answered(message))
    this.#child.on('exit', (code, signal) => {
      for (const { reject } of this.#waiting.values())
        reject(new Error(`the process ended with ${code ?? signal}: ${this.#log}`))
      this.#waiting.clear()
    })
  }

  /** The end of the log. */
  get log(): string {
    return this.#log
  }

  ask<Name extends keyof Commands>(
    command: Name,
    ...[argument]: Parameters<Commands[Name]>
  ): ReturnType<Commands[Name]> {
    const id = this.#nextId++
    const answer = new Promise((resolve, reject) => this.#waiting.set(id, { resolve, reject }))
    this.#child.send({ id, command, argument })
    return answer as ReturnType<Commands[Name]>
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const exit = once(this.#child, 'exit')
    this.#child.kill('SIGTERM')
    await exit
  }

  #answered(message: Message): void {
    if ('command' in message) return
    const waiting = this.#waiting.get(message.id)
    this.#waiting.delete(message.id)
    if (message.error === undefined) waiting?.resolve(message.value)
    else waiting?.reject(new Error(message.error))
  }
}
