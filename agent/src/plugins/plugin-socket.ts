import { createHash, randomBytes } from 'node:crypto'
import path from 'node:path'
import { MAX_SOCKET_PATH } from '@akrijs/runtime'

/** Distinguishes the agent's sockets from sockets of other device plugins. */
const PREFIX = 'akri-'

/** @returns a unique path that fits into a socket address; a digest replaces a long name */
export function pluginSocket(directory: string, resourceName: string): string {
  const unique = randomBytes(4).toString('hex')
  const name = path.basename(resourceName)
  const full = path.join(directory, `${PREFIX}${name}-${unique}.sock`)
  if (Buffer.byteLength(full) <= MAX_SOCKET_PATH) return full
  const digest = createHash('sha256').update(name).digest('hex').slice(0, 12)
  return path.join(directory, `${PREFIX}${digest}-${unique}.sock`)
}

/**
 * Whether a file in the kubelet's plugin directory is a socket of this agent or of an earlier
 * agent.
 */
export function isPluginSocket(name: string): boolean {
  return name.startsWith(PREFIX) && name.endsWith('.sock')
}
