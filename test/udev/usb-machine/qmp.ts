import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { eachLine } from '../guest.js'

/** QEMU refused a command or ended. */
export class QemuError extends Error {
  override readonly name = 'QemuError'
}

interface Waiting {
  resolve(value: unknown): void
  reject(error: QemuError): void
}

/** QEMU's machine protocol: one command at a time, each with an answer. */
export class Qmp {
  readonly #socket: Socket
  readonly #waiting: Waiting[] = []

  static async open(socketPath: string, signal: AbortSignal): Promise<Qmp> {
    const qmp = new Qmp(await connected(socketPath, signal))
    await qmp.execute('qmp_capabilities')
    return qmp
  }

  private constructor(socket: Socket) {
    this.#socket = socket
    eachLine(socket, (line) => this.#read(line))
    socket.on('close', () => {
      for (const { reject } of this.#waiting.splice(0)) reject(new QemuError('the machine is gone'))
    })
  }

  execute(command: string, args: Readonly<Record<string, unknown>> = {}): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({
        resolve,
        reject: (error) => reject(new QemuError(`${command}: ${error.message}`)),
      })
      this.#socket.write(`${JSON.stringify({ execute: command, arguments: args })}\n`)
    })
  }

  close(): void {
    this.#socket.destroy()
  }

  #read(line: string): void {
    const message: { return?: unknown; error?: { desc: string } } = JSON.parse(line)
    // The greeting and events are not answers.
    if (message.return !== undefined) this.#waiting.shift()?.resolve(message.return)
    else if (message.error !== undefined)
      this.#waiting.shift()?.reject(new QemuError(message.error.desc))
  }
}

/** Connects to a socket that may not exist yet. */
export async function connected(socketPath: string, signal: AbortSignal): Promise<Socket> {
  for (;;) {
    const socket = connect(socketPath)
    try {
      await once(socket, 'connect', { signal })
      return socket
    } catch (error) {
      socket.destroy()
      if (signal.aborted) throw error
      await sleep(25, undefined, { signal })
    }
  }
}
