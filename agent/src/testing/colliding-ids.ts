import type { NodeName } from '@akrijs/kube/objects'
import { deviceDigest } from '../instances/instance-name.js'

/**
 * Two ids of one short digest, the first id by code units first. Found by search: 24 bits collide
 * among a few thousand ids.
 * @param node @default the devices are shared
 */
export function collidingIds(node?: NodeName, prefix = 'camera'): [string, string] {
  const place =
    node === undefined ? ({ shared: true } as const) : ({ shared: false, node } as const)
  const seen = new Map<string, string>()
  for (let n = 0; ; n++) {
    const id = `${prefix}-${n}`
    const digest = deviceDigest(id, place)
    const other = seen.get(digest)
    if (other !== undefined) return other < id ? [other, id] : [id, other]
    seen.set(digest, id)
  }
}
