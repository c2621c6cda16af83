import { createInterface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'
import type { Device } from '@akrijs/sdk/handler'
import { DeviceWatch } from './device-watch.js'

/** `discoveryDetails` of the udev handler. */
export interface UdevRequest {
  readonly udevRules: readonly string[]
  readonly groupRecursive?: boolean
}

interface WatchOptions {
  /** In a network namespace of its own, as in a Pod. @default false */
  readonly alone?: boolean
  /** @default 'udev' */
  readonly handler?: 'udev' | 'usb'
}

interface Answer {
  readonly status: number
  readonly output: string
}

/** A command in the guest failed, or the guest ended. */
export class GuestError extends Error {
  override readonly name = 'GuestError'
}

/** The counterpart of guest-program.mjs on this machine. */
export class Guest {
  readonly #output: Writable
  readonly #answers = new Map<number, (answer: Answer) => void>()
  readonly #watches = new Map<number, DeviceWatch>()
  readonly #begun = new AbortController()
  readonly #ended = new AbortController()
  #lastId = 0

  constructor(input: Readable, output: Writable) {
    this.#output = output
    output.on('error', () => output.destroy())
    eachLine(input, (line) => this.#read(line))
    input.on('close', () => this.#gone())
  }

  /** Waits until the program listens. */
  async ready(signal: AbortSignal): Promise<void> {
    const over = AbortSignal.any([signal, this.#ended.signal])
    if (this.#begun.signal.aborted) return
    await new Promise<void>((resolve, reject) => {
      this.#begun.signal.addEventListener('abort', () => resolve(), { once: true })
      const onOver = () => reject(new GuestError('the guest did not begin'))
      over.addEventListener('abort', onOver, { once: true })
      if (over.aborted) onOver()
    })
  }

  /** Runs a shell command in the guest and returns its output. */
  async run(command: string, input = ''): Promise<string> {
    if (this.#ended.signal.aborted) throw new GuestError(`${command}: the guest is gone`)
    const id = ++this.#lastId
    const answered = new Promise<Answer>((resolve) => this.#answers.set(id, resolve))
    this.#send({ id, run: command, input })
    const { status, output } = await answered
    if (status !== 0) throw new GuestError(`${command} ended with ${status}: ${output}`)
    return output
  }

  /** Opens a discovery of a handler in the guest, and waits for its first list. */
  async watch(details: UdevRequest | object, options: WatchOptions = {}): Promise<DeviceWatch> {
    if (this.#ended.signal.aborted) throw new GuestError('the guest is gone')
    const id = ++this.#lastId
    const watch = new DeviceWatch(() => this.#send({ id, stop: true }))
    this.#watches.set(id, watch)
    this.#send({ id, watch: details, ...options })
    await watch.until('the first list', () => true)
    return watch
  }

  /** Ends the guest program. */
  close(): void {
    this.#output.destroy()
  }

  #read(line: string): void {
    const message: Partial<Answer> & {
      ready?: true
      id?: number
      list?: Device[]
      error?: string
    } = JSON.parse(line)
    const { id = 0, status, output = '', list, error } = message
    if (message.ready) this.#begun.abort()
    else if (status !== undefined) {
      this.#answers.get(id)?.({ status, output })
      this.#answers.delete(id)
    } else if (list !== undefined) this.#watches.get(id)?.add({ devices: list })
    else this.#watches.get(id)?.end(error)
  }

  #send(message: object): void {
    this.#output.write(`${JSON.stringify(message)}\n`)
  }

  #gone(): void {
    this.#ended.abort()
    for (const answer of this.#answers.values()) answer({ status: -1, output: 'the guest is gone' })
    for (const watch of this.#watches.values()) watch.end('the guest is gone')
  }
}

/** A broken stream counts as closed. */
export function eachLine(input: Readable, onLine: (line: string) => void): void {
  input.on('error', () => input.destroy())
  // The line reader repeats errors of its input.
  createInterface({ input })
    .on('error', () => input.destroy())
    .on('line', onLine)
}
