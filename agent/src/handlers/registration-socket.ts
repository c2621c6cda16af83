import { once } from 'node:events'
import { chmod, chown, lstat, mkdir, rm } from 'node:fs/promises'
import net from 'node:net'
import path from 'node:path'
import { type Logger, makeRoomForSocket, messageOf, SocketUnusableError } from '@akrijs/runtime'
import { AGENT_SOCKET } from '@akrijs/sdk/host'
import { MAX_REGISTRATION_CONNECTIONS } from '../limits.js'

/**
 * Members of the group make sockets, and remove only their own (the sticky bit): a handler cannot
 * take the place of the agent's socket, or of that of a handler of another user.
 */
const DIRECTORY_MODE = 0o1770

export interface RegistrationSocketOptions {
  /** The directory that the agent shares with handlers. */
  readonly directory: string
  /** The group of handlers that are not root. @default handlers have the user of the agent */
  readonly group?: number | undefined
  readonly log: Logger
}

/** The socket on which handlers register. @throws SocketUnusableError */
export async function openRegistrationSocket(
  { directory, group, log }: RegistrationSocketOptions,
  onConnection: (connection: net.Socket) => void,
): Promise<{ close(): Promise<void> }> {
  const socket = path.join(directory, AGENT_SOCKET)
  let openTo = group
  if (group !== undefined)
    await openDirectoryToGroup(directory, group).catch((error: unknown) => {
      // Devices are more important: handlers of the agent's user go on.
      log.error({ err: error }, 'directory of handlers not opened to their group')
      openTo = undefined
    })
  await makeRoomForSocket(socket)
  const connections = new Set<net.Socket>()
  const listener = net.createServer((connection) => {
    // A handler of the SDK whose connection ends registers again.
    const [oldest] = connections
    if (oldest !== undefined && connections.size >= MAX_REGISTRATION_CONNECTIONS) {
      // The event `close` comes later than other connections.
      connections.delete(oldest)
      oldest.destroy()
    }
    connections.add(connection)
    connection.once('close', () => connections.delete(connection))
    // Without a listener, the reset of a connection would end the process.
    connection.on('error', () => connection.destroy())
    onConnection(connection)
  })
  await once(listener.listen(socket), 'listening').catch((error: unknown) => {
    const message = `cannot listen on ${socket}: ${messageOf(error)}`
    throw new SocketUnusableError(message, { cause: error })
  })
  listener.on('error', (err) => log.error({ err }, 'connection of a handler not accepted'))
  if (openTo !== undefined) await giveToGroup(socket, openTo)
  await chmod(socket, 0o660)
  const { ino } = await lstat(socket)
  return {
    async close() {
      const closed = once(listener, 'close')
      listener.close()
      for (const connection of connections) connection.destroy()
      await closed
      // During an upgrade the socket of the next agent may be there.
      const found = await lstat(socket).catch(() => undefined)
      if (found?.ino === ino) await rm(socket, { force: true })
    },
  }
}

/**
 * Lets handlers that are not root make sockets in the directory, as members of the group.
 * @throws SocketUnusableError if the directory belongs to another user, or the agent is no member
 */
async function openDirectoryToGroup(directory: string, group: number): Promise<void> {
  try {
    await mkdir(directory, { recursive: true })
    await giveToGroup(directory, group)
    await chmod(directory, DIRECTORY_MODE)
  } catch (error) {
    const message =
      `${directory} cannot be opened to the group ${group}: ${messageOf(error)}; it must ` +
      "belong to the agent's user, and the agent's Pod must have supplementalGroups: " +
      `[${group}]`
    throw new SocketUnusableError(message, { cause: error })
  }
}

/** A process without capabilities may give a file of its own to a group of its own. */
async function giveToGroup(file: string, group: number): Promise<void> {
  await chown(file, process.geteuid?.() ?? 0, group)
}
