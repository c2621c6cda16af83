import net from 'node:net'
import path from 'node:path'
import { makeRoomForSocket, SocketUnusableError } from '@akrijs/sdk/host'
import { StateFileError, StateLockedError } from '../errors.js'

/**
 * Makes sure that one agent at a time works on a state directory. The lock is a listening socket: the kernel lets go of it
 * when the process ends, however it ends, so that no stale lock can be left behind.
 * @throws StateLockedError
 * @throws StateFileError where the directory cannot be written
 */
export async function lockState(directory: string): Promise<{ release(): Promise<void> }> {
  const file = path.join(directory, 'lock.sock')
  try {
    await makeRoomForSocket(file)
  } catch (error) {
    if (!(error instanceof SocketUnusableError)) throw error
    throw new StateLockedError(`another agent works on ${directory}: ${error.message}`)
  }
  const server = net.createServer((socket) => socket.destroy())
  server.unref()
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => {
      const taken = 'code' in error && error.code === 'EADDRINUSE'
      if (taken) reject(new StateLockedError(`another agent works on ${directory}: ${error.message}`))
      else reject(new StateFileError(`${directory} cannot be written: ${error.message}`, { cause: error }))
    })
    server.listen(file, resolve)
  })
  return { release: () => new Promise((resolve) => server.close(() => resolve())) }
}
