// The probes of a kubelet, in a process that does nothing else, or a program to compare with.
import { once } from 'node:events'
import http from 'node:http'
import { performance } from 'node:perf_hooks'
import { silentLogger, systemClock } from '@akrijs/runtime'
import { createContext } from '@akrijs/runtime/program'
import { serveCommands } from './protocol.js'

const PAUSE_MS = 25
/** The first requests of two processes take longer. */
const WARM_UP = 10

const stop = new AbortController()
let probing: Promise<readonly number[]> | undefined

serveCommands({
  async serveHealth() {
    const context = createContext({ log: silentLogger, signal: stop.signal })
    const options = { port: 0, ready: () => undefined, metrics: async () => '' }
    return (await context.serveHealth(options)) ?? 0
  },
  async probe(ports) {
    for (const port of ports) for (let count = 0; count < WARM_UP; count++) await answered(port)
    probing = probe(ports)
  },
  async probed() {
    stop.abort()
    return (await probing) ?? []
  },
})

async function probe(ports: readonly number[]): Promise<readonly number[]> {
  const longest = ports.map(() => 0)
  while (!stop.signal.aborted)
    for (const [index, port] of ports.entries()) {
      const begun = performance.now()
      await answered(port)
      longest[index] = Math.max(longest[index] ?? 0, performance.now() - begun)
      await systemClock.sleep(PAUSE_MS)
    }
  return longest
}

/** On a new connection, as a kubelet does. */
async function answered(port: number): Promise<void> {
  const request = http.get(`http://127.0.0.1:${port}/healthz`, { agent: false })
  const [response] = (await once(request, 'response')) as [http.IncomingMessage]
  await once(response.resume(), 'end')
}
