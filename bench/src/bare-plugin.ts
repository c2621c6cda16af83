import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { bundleTypeScript } from './load-typescript.mjs'

/** A process with a device plugin that only sends a PATCH for each Allocate. */
export class BarePlugin {
  readonly socket: string
  readonly #child: ChildProcess

  private constructor(socket: string, child: ChildProcess) {
    this.socket = socket
    this.#child = child
  }

  /** @param instance the path of an Instance on the API server */
  static async start(socket: string, instance: string): Promise<BarePlugin> {
    const file = await bundleTypeScript('bench/src/processes/bare-plugin.ts')
    const child = fork(file, [socket, instance], { execArgv: ['--max-semi-space-size=2'] })
    await Promise.race([
      once(child, 'message'),
      once(child, 'exit').then(([code]) => {
        throw new TypeError(`the bare plugin has ended with ${code}`)
      }),
    ])
    return new BarePlugin(socket, child)
  }

  get pid(): number | undefined {
    return this.#child.pid
  }

  async stop(): Promise<void> {
    const ended = once(this.#child, 'exit')
    this.#child.kill()
    await ended
  }
}
