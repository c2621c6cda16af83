import { once } from 'node:events'
import net from 'node:net'
import { withTimeLimit } from '@akrijs/sdk'
import {
  type Answer,
  type Identification,
  identificationRequest,
  LEVEL,
  OBJECTS,
  type Request,
  readFrame,
} from './message.js'

/** The time for a connection, and for each answer, in milliseconds. */
export const ANSWER_MS = 2000

/** The codes of exceptions (MODBUS Application Protocol V1.1b3, 7). */
const ILLEGAL_FUNCTION = 1
const ILLEGAL_ADDRESS_OR_VALUE = [2, 3]
const OF_GATEWAY = [10, 11]

export interface ConnectionOptions {
  readonly address: string
  readonly port: number
  /** Waits before a request, so that they are slow. */
  readonly pause: () => Promise<void>
  readonly signal: AbortSignal
}

/** A connection to a device or a gateway, with one request at a time. */
export class ModbusConnection {
  readonly #options: ConnectionOptions
  readonly #socket: net.Socket
  #received: Buffer = Buffer.alloc(0)
  #transaction = 0
  #pending: (Request & { take(answer: Answer): void; fail(error: unknown): void }) | undefined

  /** @throws an Error whose message says why, for people, or an error of the time limit */
  static async open(options: ConnectionOptions): Promise<ModbusConnection> {
    const connection = new ModbusConnection(options)
    try {
      await withTimeLimit(ANSWER_MS, options.signal, (signal) =>
        once(connection.#socket, 'connect', { signal }),
      )
      return connection
    } catch (error) {
      connection.#socket.destroy()
      throw error
    }
  }

  private constructor(options: ConnectionOptions) {
    const { address, port } = options
    this.#options = options
    this.#socket = net.connect({ host: address, port })
    this.#socket.on('data', (bytes) => this.#receive(bytes))
    // Also without a request, when no part waits for it.
    this.#socket.on('error', (error) => this.#pending?.fail(error))
    this.#socket.on('close', () => this.#pending?.fail(new Error('connection closed')))
  }

  get isOpen(): boolean {
    return !this.#socket.destroyed
  }

  /** Waits for the end on the other side too, so that another connection is no second one. */
  async close(): Promise<void> {
    const socket = this.#socket.end()
    if (this.isOpen)
      await withTimeLimit(ANSWER_MS, this.#options.signal, (signal) =>
        once(socket, 'close', { signal }),
      ).catch(() => undefined)
    socket.destroy()
  }

  /**
   * What a unit says of itself. Undefined if it answers, and cannot say that now.
   * @throws an Error whose message says why there is no such unit, for people, or an error of the
   *   time limit
   */
  async identify(unit: number): Promise<Identification | undefined> {
    let found: Identification = {}
    let level: number = LEVEL.regular
    for (let object: number | undefined = 0; object !== undefined; ) {
      const answer = await this.#ask({ unit, level, object })
      if ('objects' in answer) {
        found = { ...answer.objects, ...found }
        // A unit that goes back would be asked without an end.
        const { next = 0 } = answer
        object = next > object && next < OBJECTS.length ? next : undefined
      } else if (OF_GATEWAY.includes(answer.exception)) {
        throw new Error('the gateway reaches no such unit')
      } else if (answer.exception === ILLEGAL_FUNCTION) {
        return found
      } else if (level === LEVEL.regular && ILLEGAL_ADDRESS_OR_VALUE.includes(answer.exception)) {
        level = LEVEL.basic
        object = 0
      } else return undefined
    }
    return found
  }

  async #ask(question: Omit<Request, 'transaction'>): Promise<Answer> {
    const { pause, signal } = this.#options
    await pause()
    if (!this.isOpen) throw new Error('connection closed')
    this.#transaction++
    const request = { ...question, transaction: this.#transaction }
    const asked = withTimeLimit(ANSWER_MS, signal, (limit) => {
      return new Promise<Answer>((take, fail) => {
        limit.addEventListener('abort', () => fail(limit.reason), { once: true })
        this.#pending = { ...request, take, fail }
        this.#socket.write(identificationRequest(request))
      })
    })
    return await asked.finally(() => {
      this.#pending = undefined
    })
  }

  #receive(bytes: Buffer): void {
    try {
      this.#received = Buffer.concat([this.#received, bytes])
      for (let frame = readFrame(this.#received); frame; frame = readFrame(this.#received)) {
        this.#received = frame.rest
        // Other answers are late ones.
        const { transaction, unit, take } = this.#pending ?? {}
        if (frame.transaction === transaction && frame.unit === unit) take?.(frame.answer)
      }
    } catch (error) {
      this.#pending?.fail(error)
      this.#socket.destroy()
    }
  }
}
