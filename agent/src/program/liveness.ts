import { type Clock, isServed, type Logger } from '@akrijs/runtime'
import type { DevicePlugins } from '../plugins/device-plugins.js'

interface LivenessOptions {
  /** The socket on which handlers register. */
  readonly registration: string
  readonly plugins: Pick<DevicePlugins, 'served'>
  readonly clock: Clock
  readonly log: Logger
}

/**
 * How many device plugins are dialled per probe: 1,000 plugins would take 0.2 s of processor time.
 */
const DIALS = 32

/**
 * How long a device plugin may be silent, in milliseconds. Its server detects a removed socket
 * within two seconds. A registration that is under way then takes ten seconds at most.
 */
const MEND_MS = 15_000

/**
 * Checks that the agent's own sockets answer: the registration socket, and device plugins in turn.
 * If a socket stays silent, the kubelet should restart the agent.
 * @returns a check: the problem; undefined if there is none
 */
export function livenessCheck({ registration, plugins, clock, log }: LivenessOptions) {
  /** Sockets that did not answer the last dial, and since when. */
  const silent = new Map<string, number>()
  /** Index of the device plugin that is dialled next. */
  let next = 0
  let problem: string | undefined

  async function problemOfPlugins(): Promise<string | undefined> {
    const { served } = plugins
    const sockets = new Set(served.map(({ socket }) => socket))
    // A plugin that is served again has another socket.
    for (const socket of silent.keys()) if (!sockets.has(socket)) silent.delete(socket)
    // The silent plugins each time, because the kubelet counts consecutive failures only.
    const again = served.filter(({ socket }) => silent.has(socket)).slice(0, DIALS)
    const first = next % Math.max(1, served.length)
    next = first + DIALS
    const inTurn = [...served, ...served].slice(first, next)
    const dials = [...new Set([...again, ...inTurn])].map(async ({ socket }) => {
      if (await isServed(socket)) silent.delete(socket)
      else if (!silent.has(socket)) silent.set(socket, clock.monotonicMs())
    })
    await Promise.all(dials)
    const now = clock.monotonicMs()
    const lost = served.find(({ socket }) => now - (silent.get(socket) ?? now) >= MEND_MS)
    return lost && `the device plugin of ${lost.resourceName} does not answer on ${lost.socket}`
  }

  return async (): Promise<string | undefined> => {
    const isRegistering = await isServed(registration)
    const found = isRegistering ? await problemOfPlugins() : `${registration} does not answer`
    if (found !== problem) {
      if (found !== undefined) log.error({ problem: found }, 'agent became unhealthy')
      else log.info({ was: problem }, 'agent became healthy')
    }
    problem = found
    return found
  }
}
