import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import path from 'node:path'
import { bundle as bundleSources } from '../support/bundle.js'
import type { CameraCommands } from './cameras-program.js'

const OUT = path.resolve(import.meta.dirname, '../../.cache/test-onvif')

/** Bundles a test program for a host of the network. */
export async function bundle(name: 'cameras-program' | 'handler-program'): Promise<string> {
  const outfile = path.join(OUT, `${process.pid}-${name}.mjs`)
  await bundleSources({ entryPoints: [path.join(import.meta.dirname, `${name}.ts`)], outfile })
  process.once('exit', () => rmSync(outfile, { force: true }))
  return outfile
}

/** A program that runs in a network namespace until it is closed. */
export class HostProcess {
  readonly #child: ChildProcess

  constructor(
    namespace: string,
    file: string,
    args: readonly string[] = [],
    env: Readonly<Record<string, string>> = {},
  ) {
    const stdio = ['ignore', 'inherit', 'inherit', 'ipc'] as const
    const command = ['netns', 'exec', namespace, process.execPath, file, ...args]
    this.#child = spawn('ip', command, { stdio: [...stdio], env: { ...process.env, ...env } })
  }

  get child(): ChildProcess {
    return this.#child
  }

  async close(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const exit = once(this.#child, 'exit')
    // Test programs end when the channel closes, programs of the project by a signal.
    if (this.#child.connected) this.#child.disconnect()
    this.#child.kill()
    await exit
  }
}

type Answer = { readonly id: number; readonly result?: unknown; readonly error?: string }

/** The simulated cameras of one host. */
export class Cameras {
  readonly #process: HostProcess
  readonly #waiting = new Map<number, (answer: Answer) => void>()
  #calls = 0

  constructor(process: HostProcess) {
    this.#process = process
    process.child.on('message', (answer: Answer) => this.#waiting.get(answer.id)?.(answer))
  }

  async call<Command extends keyof CameraCommands>(
    command: Command,
    ...args: Parameters<CameraCommands[Command]>
  ): Promise<Awaited<ReturnType<CameraCommands[Command]>>> {
    const id = ++this.#calls
    const { result, error } = await new Promise<Answer>((resolve) => {
      this.#waiting.set(id, resolve)
      this.#process.child.send({ id, command, args })
    })
    this.#waiting.delete(id)
    if (error !== undefined) throw new Error(`${command}: ${error}`)
    return result as Awaited<ReturnType<CameraCommands[Command]>>
  }

  async close(): Promise<void> {
    await this.#process.close()
  }
}
