// The life of a simulated device of the demo: the device ends by SIGTERM, and with any end of the
// demo.
import { once } from 'node:events'
import net from 'node:net'

let close = async () => {}
let ending = false

process.once('SIGTERM', end)
process.once('disconnect', end)
// The demo can end before this program runs: then there is no event.
if (process.connected === false) end()

/**
 * Tells the demo that the device is ready.
 * @param {Readonly<Record<string, object>>} devices what to keep of each, by its name
 * @param {() => Promise<void>} onEnd closes the device
 */
export function ready(devices, onEnd) {
  close = onEnd
  if (process.connected) process.send(devices)
}

/** The port; 0, for a free port, if another program has it. */
export async function usablePort(port) {
  const server = net.createServer()
  try {
    server.listen(port, '127.0.0.1')
    await once(server, 'listening')
    return port
  } catch {
    return 0
  } finally {
    await new Promise((resolve) => server.close(resolve))
  }
}

async function end() {
  if (ending) return
  ending = true
  await close()
  process.exit(0)
}
