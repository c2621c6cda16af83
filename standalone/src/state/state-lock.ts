import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import net from 'node:net'
import path from 'node:path'
import {
  codeOf,
  makeRoomForSocket,
  messageOf,
  SocketUnusableError,
  systemClock,
} from '@akrijs/runtime'
import { StateFileError, StateLockedError } from '../errors.js'
import { answerForLock, LOCK, runningAgent } from './running-agent.mjs'

/**
 * Locks a state directory for one agent, whatever path names the directory. The lock is a listening
 * socket: the kernel releases it when the process ends, so that no stale lock remains.
 * @throws StateLockedError
 * @throws StateFileError if the directory cannot be written
 */
export async function lockState(directory: string): Promise<{ release(): Promise<void> }> {
  const handle = await open(directory, constants.O_DIRECTORY).catch((error: unknown) => {
    throw new StateFileError(`${directory} cannot be opened: ${messageOf(error)}`, { cause: error })
  })
  // This path is short enough for a socket, however long the path of the directory is.
  const opened = `/proc/self/fd/${handle.fd}`
  try {
    const server = await listen(path.join(opened, LOCK))
    return {
      release: async () => {
        await new Promise((resolve) => server.close(resolve))
        await handle.close()
      },
    }
  } catch (error) {
    await handle.close()
    const reason = messageOf(error).replaceAll(opened, directory)
    if (error instanceof SocketUnusableError || codeOf(error) === 'EADDRINUSE') {
      const agent = (await runningAgent(directory)) ?? reason
      throw new StateLockedError(`another agent uses ${directory}: ${agent}`, { cause: error })
    }
    throw new StateFileError(`${directory} cannot be written: ${reason}`, { cause: error })
  }
}

async function listen(file: string): Promise<net.Server> {
  await makeRoomForSocket(file)
  const since = systemClock.wallMs()
  const server = net.createServer((socket) => answerForLock(socket, since))
  server.unref()
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(file, resolve)
  })
  return server
}
