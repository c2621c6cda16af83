import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import net from 'node:net'
import path from 'node:path'
import { makeRoomForSocket, messageOf, SocketUnusableError } from '@akrijs/runtime'
import { StateFileError, StateLockedError } from '../errors.js'

/**
 * Makes sure that one agent at a time works on a state directory, however its path is spelt. The lock is a listening socket:
 * the kernel lets go of it when the process ends, however it ends, so that no stale lock can be left behind.
 * @throws StateLockedError
 * @throws StateFileError where the directory cannot be written
 */
export async function lockState(directory: string): Promise<{ release(): Promise<void> }> {
  const handle = await open(directory, constants.O_DIRECTORY).catch((error: unknown) => {
    throw new StateFileError(`${directory} cannot be opened: ${messageOf(error)}`, { cause: error })
  })
  // By this name the directory's own path may be longer than that of a socket.
  const opened = `/proc/self/fd/${handle.fd}`
  const messageFor = (error: unknown) => messageOf(error).replaceAll(opened, directory)
  try {
    const server = await listen(path.join(opened, 'lock.sock'))
    const closed = () => new Promise((resolve) => server.close(resolve))
    return {
      release: async () => {
        await closed()
        await handle.close()
      },
    }
  } catch (error) {
    await handle.close()
    const taken =
      error instanceof SocketUnusableError ||
      (error instanceof Error && 'code' in error && error.code === 'EADDRINUSE')
    if (taken)
      throw new StateLockedError(`another agent works on ${directory}: ${messageFor(error)}`)
    throw new StateFileError(`${directory} cannot be written: ${messageFor(error)}`, {
      cause: error,
    })
  }
}

async function listen(file: string): Promise<net.Server> {
  await makeRoomForSocket(file)
  const server = net.createServer((socket) => socket.destroy())
  server.unref()
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(file, resolve)
  })
  return server
}
