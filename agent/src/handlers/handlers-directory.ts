import { chmod, chown, mkdir } from 'node:fs/promises'
import { messageOf, SocketUnusableError } from '@akrijs/runtime'

/**
 * Members of the group make sockets, and remove only their own (the sticky bit): a handler cannot
 * take the place of the agent's socket, or of that of a handler of another user.
 */
const DIRECTORY_MODE = 0o1770

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
export async function giveToGroup(file: string, group: number): Promise<void> {
  await chown(file, process.geteuid?.() ?? 0, group)
}
