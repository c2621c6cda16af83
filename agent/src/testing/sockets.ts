import { once } from 'node:events'
import { link } from 'node:fs/promises'
import net from 'node:net'
import { onTestFinished } from 'vitest'

/** Listens on the socket until the test ends. @returns the socket */
export async function listenOn(socket: string): Promise<string> {
  const server = net.createServer().listen(socket)
  onTestFinished(() => void server.close())
  await once(server, 'listening')
  return socket
}

/** Leaves a socket without a listener, as a killed process does. */
export async function leaveSocket(socket: string): Promise<void> {
  const server = net.createServer().listen(`${socket}.dying`)
  await once(server, 'listening')
  await link(`${socket}.dying`, socket)
  await new Promise((resolve) => server.close(resolve))
}
