import { type Clock, isServed, type Logger } from '@akrijs/runtime'

/** A device plugin, and where it is served at present. */
export interface ServedPlugin {
  readonly resourceName: string
  readonly socket: string
}

export interface LivenessOptions {
  /** The socket where handlers register. */
  readonly registration: string
  /** The device plugins that are served now. */
  plugins(): readonly ServedPlugin[]
  readonly clock: Clock
  readonly log: Logger
}

/** How many device plugins are dialled for one answer: all of 1,000 would take 0.2 s of the processor each time. */
const DIALS = 32

/**
 * How long a device plugin may not answer, in milliseconds. Where its socket is gone, its server sees that within two seconds and
 * serves on another one, after a registration under way, which ends within ten.
 */
const MEND_MS = 15_000

/** Whether the agent's own sockets answer. An agent of which one stays silent is to be started anew. */
export class Liveness {
  readonly #options: LivenessOptions
  /** Sockets of device plugins that did not answer when they were dialled last, each since when. */
  readonly #silent = new Map<string, number>()
  /** Of the device plugins: who is dialled next. */
  #next = 0
  #known: string | undefined

  constructor(options: LivenessOptions) {
    this.#options = options
  }

  /** Dials the socket of registrations, and device plugins in turn. @returns which one does not answer, undefined if none */
  async problem(): Promise<string | undefined> {
    const found = (await this.#problemOfRegistration()) ?? (await this.#problemOfPlugins())
    if (found !== this.#known) {
      if (found !== undefined) this.#options.log.error({ problem: found }, 'not healthy')
      else this.#options.log.info({ was: this.#known }, 'healthy again')
    }
    this.#known = found
    return found
  }

  async #problemOfRegistration(): Promise<string | undefined> {
    const { registration } = this.#options
    return (await isServed(registration)) ? undefined : `${registration} does not answer`
  }

  async #problemOfPlugins(): Promise<string | undefined> {
    const { clock } = this.#options
    const served = this.#options.plugins()
    const sockets = new Set(served.map(({ socket }) => socket))
    // One that is served anew has another socket.
    for (const socket of [...this.#silent.keys()])
      if (!sockets.has(socket)) this.#silent.delete(socket)
    // One after the other: what the kubelet asks for meanwhile comes in between.
    for (const { socket } of this.#toDial(served)) {
      if (await isServed(socket)) this.#silent.delete(socket)
      else if (!this.#silent.has(socket)) this.#silent.set(socket, clock.monotonicMs())
    }
    const lost = served.find(
      ({ socket }) =>
        clock.monotonicMs() - (this.#silent.get(socket) ?? clock.monotonicMs()) >= MEND_MS,
    )
    return lost && `the device plugin of ${lost.resourceName} does not answer on ${lost.socket}`
  }

  /** Those that did not answer are dialled each time: whoever asks counts only failures that follow each other. */
  #toDial(served: readonly ServedPlugin[]): ServedPlugin[] {
    const isSilent = ({ socket }: ServedPlugin) => this.#silent.has(socket)
    const again = served.filter(isSilent).slice(0, DIALS)
    const first = this.#next % Math.max(1, served.length)
    const others = [...served.slice(first), ...served.slice(0, first)].filter(
      (one) => !isSilent(one),
    )
    this.#next = first + DIALS - again.length
    return [...again, ...others.slice(0, DIALS - again.length)]
  }
}
