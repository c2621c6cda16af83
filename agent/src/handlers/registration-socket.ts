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

interface RegistrationSocketOptions {
  /** The directory that the agent shares with handlers. */
  readonly directory: string
  /** The group of handlers that are not root. @default handlers have the user of the agent */
  readonly group?: number | undefined
  readonly log: Logger
}

/** The socket on which handlers register. */
export class RegistrationSocket {
  readonly path: string
  readonly #options: RegistrationSocketOptions
  readonly #listener: net.Server
  readonly #connections = new Set<net.Socket>()
  #inode: number | undefined

  private constructor(
    options: RegistrationSocketOptions,
    onConnection: (connection: net.Socket) => void,
  ) {
    this.#options = options
    this.path = path.join(options.directory, AGENT_SOCKET)
    this.#listener = net.createServer((connection) => {
      // A handler of the SDK whose connection ends registers again.
      const [oldest] = this.#connections
      if (oldest !== undefined && this.#connections.size >= MAX_REGISTRATION_CONNECTIONS) {
        this.#connections.delete(oldest)
        oldest.destroy()
      }
      this.#connections.add(connection)
      connection.once('close', () => this.#connections.delete(connection))
      // Without a listener, the reset of a connection would end the process.
      connection.on('error', () => connection.destroy())
      onConnection(connection)
    })
  }

  /** @throws SocketUnusableError */
  static async open(
    options: RegistrationSocketOptions,
    onConnection: (connection: net.Socket) => void,
  ): Promise<RegistrationSocket> {
    const socket = new RegistrationSocket(options, onConnection)
    await socket.#open()
    return socket
  }

  async #open(): Promise<void> {
    const { directory, group, log } = this.#options
    let isOpenToGroup = group !== undefined
    if (group !== undefined)
      await openDirectoryToGroup(directory, group).catch((error: unknown) => {
        // Devices are more important: handlers of the agent's user go on.
        log.error({ err: error }, 'directory of handlers not opened to their group')
        isOpenToGroup = false
      })
    await makeRoomForSocket(this.path)
    this.#listener.listen(this.path)
    await once(this.#listener, 'listening').catch((error: unknown) => {
      const message = `cannot listen on ${this.path}: ${messageOf(error)}`
      throw new SocketUnusableError(message, { cause: error })
    })
    this.#listener.on('error', (err) => log.error({ err }, 'connection of a handler not accepted'))
    if (group !== undefined && isOpenToGroup) await giveToGroup(this.path, group)
    await chmod(this.path, 0o660)
    this.#inode = (await lstat(this.path)).ino
  }

  async close(): Promise<void> {
    const closed = once(this.#listener, 'close')
    this.#listener.close()
    for (const connection of this.#connections) connection.destroy()
    await closed
    // During an upgrade the socket of the next agent may be there.
    const found = await lstat(this.path).catch(() => undefined)
    if (found?.ino === this.#inode) await rm(this.path, { force: true })
  }
}

/**
 * Opens the directory that the agent shares with handlers to a group, so that handlers need not be
 * root. The agent must be a member of the group.
 * @throws SocketUnusableError if the directory belongs to another user, or the agent is no member
 */
export async function openDirectoryToGroup(directory: string, group: number): Promise<void> {
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
