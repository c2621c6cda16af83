import { createHash, randomBytes } from 'node:crypto'
import path from 'node:path'
import { MAX_SOCKET_PATH } from '@akrijs/runtime'

/** Sockets of ours begin with this, so that those of an agent that died can be told from those of other plugins. */
const PREFIX = 'akri-'

/** A path that no other plugin has, and that fits into a socket's address: of a long name a digest stands for the end. */
export function pluginSocket(directory: string, resourceName: string): string {
  const unique = randomBytes(4).toString('hex')
  const name = path.basename(resourceName)
  const full = path.join(directory, `${PREFIX}${name}-${unique}.sock`)
  if (Buffer.byteLength(full) <= MAX_SOCKET_PATH) return full
  const digest = createHash('sha256').update(name).digest('hex').slice(0, 12)
  return path.join(directory, `${PREFIX}${digest}-${unique}.sock`)
}

/** Whether a file in the kubelet's directory of plugins is a socket of ours, or of an agent before us. */
export function isPluginSocket(name: string): boolean {
  return name.startsWith(PREFIX) && name.endsWith('.sock')
}
