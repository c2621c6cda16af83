import { type Clock, isServed, type Logger } from '@akrijs/runtime'

/** A device plugin and its socket. */
export interface ServedPlugin {
  readonly resourceName: string
  readonly socket: string
}

interface LivenessOptions {
  /** The socket on which handlers register. */
  readonly registration: string
  /** The device plugins that are served now. */
  plugins(): readonly ServedPlugin[]
  readonly clock: Clock
  readonly log: Logger
}

/**
 * How many device plugins are dialled per probe: 1,000 plugins would take 0.2 s of processor time.
 */
const DIALS = 32

/**
 * How long a probe dials device plugins, in milliseconds. The kubelet waits a few seconds for the
 * answer of a probe, also while thousands of devices keep the agent busy.
 */
const DIAL_MS = 1000

/**
 * How long a device plugin may be silent, in milliseconds. Its server detects a removed socket
 * within two seconds. A registration that is under way then takes ten seconds at most.
 */
const MEND_MS = 15_000

/**
 * Checks that the agent's own sockets answer. If a socket stays silent, the kubelet should restart
 * the agent.
 */
export class Liveness {
  readonly #options: LivenessOptions
  /** Sockets that did not answer the last dial, and since when. */
  readonly #silent = new Map<string, number>()
  /** Index of the device plugin that is dialled next. */
  #next = 0
  #problem: string | undefined

  constructor(options: LivenessOptions) {
    this.#options = options
  }

  /**
   * Dials the registration socket, and device plugins in turn. @returns the problem; undefined if
   * there is none
   */
  async problem(): Promise<string | undefined> {
    const { registration } = this.#options
    const found = (await isServed(registration))
      ? await this.#problemOfPlugins()
      : `${registration} does not answer`
    if (found !== this.#problem) {
      if (found !== undefined) this.#options.log.error({ problem: found }, 'agent became unhealthy')
      else this.#options.log.info({ was: this.#problem }, 'agent became healthy')
    }
    this.#problem = found
    return found
  }

  async #problemOfPlugins(): Promise<string | undefined> {
    const { clock } = this.#options
    const served = this.#options.plugins()
    const sockets = new Set(served.map(({ socket }) => socket))
    // A plugin that is served again has another socket.
    for (const socket of this.#silent.keys()) if (!sockets.has(socket)) this.#silent.delete(socket)
    const end = clock.monotonicMs() + DIAL_MS
    // In order, so that requests of the kubelet come in between.
    for (const { socket } of this.#toDial(served)) {
      if (clock.monotonicMs() > end) break
      if (await isServed(socket)) this.#silent.delete(socket)
      else if (!this.#silent.has(socket)) this.#silent.set(socket, clock.monotonicMs())
    }
    const now = clock.monotonicMs()
    const lost = served.find(({ socket }) => now - (this.#silent.get(socket) ?? now) >= MEND_MS)
    return lost && `the device plugin of ${lost.resourceName} does not answer on ${lost.socket}`
  }

  /** The silent plugins, because the kubelet counts consecutive failures only, and then others. */
  #toDial(served: readonly ServedPlugin[]): ServedPlugin[] {
    const first = this.#next % Math.max(1, served.length)
    this.#next = first + DIALS
    const inTurn = [...served.slice(first), ...served.slice(0, first)].slice(0, DIALS)
    const silent = served.filter(({ socket }) => this.#silent.has(socket)).slice(0, DIALS)
    return [...new Set([...silent, ...inTurn])]
  }
}
