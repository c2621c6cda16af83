import { deviceDigest } from '../instances/instance-name.js'

/**
 * Two ids of shared devices with one short digest, the first id by code units first. Found by
 * search: 24 bits collide among a few thousand ids.
 */
export function collidingIds(): [string, string] {
  const seen = new Map<string, string>()
  for (let n = 0; ; n++) {
    const id = `camera-${n}`
    const digest = deviceDigest(id, { shared: true })
    const other = seen.get(digest)
    if (other !== undefined) return other < id ? [other, id] : [id, other]
    seen.set(digest, id)
  }
}
