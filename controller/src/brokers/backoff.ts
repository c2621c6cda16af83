import { createHash } from 'node:crypto'
import { ANNOTATIONS } from '../labels.js'
import type { KubernetesObject } from '../objects.js'

// How long a broker waits that ended, before it is made again. How often that has happened is written into an annotation, so
// that another replica of the controller goes on where this one was.

/** The first wait after the first time, and the longest, in milliseconds. */
const FIRST_MS = 2000
const CEILING_MS = 5 * 60_000
/** One that was refused has to wait from the first time on: what it was refused for takes a moment. Times of Pods are in seconds. */
const REFUSED_MS = 2000
/** A broker that has run for so long has worked: it begins anew, in milliseconds. */
const STABLE_MS = 10 * 60_000

export function restartsOf({ metadata }: KubernetesObject): number {
  const count = Number(metadata.annotations?.[ANNOTATIONS.restarts] ?? 0)
  return Number.isSafeInteger(count) && count > 0 ? Math.min(count, 1000) : 0
}

/** What a broker that ended leaves behind. */
export interface Ended {
  readonly restarts: number
  /** The kubelet did not let it in. */
  readonly refused: boolean
  /** How long it ran, in milliseconds. */
  readonly ranMs: number
}

/** How many times in a row it will have been made again, and how long that has to wait, in milliseconds. */
export function restart(
  { restarts, refused, ranMs }: Ended,
  uid: string,
): { readonly restarts: number; readonly waitMs: number } {
  const before = ranMs >= STABLE_MS ? 0 : restarts
  const wait =
    before === 0 ? (refused ? REFUSED_MS : 0) : Math.min(CEILING_MS, FIRST_MS * 2 ** (before - 1))
  // Those that were refused together must not come back together. By the uid: asked again, the answer is the same.
  return { restarts: before + 1, waitMs: wait * (1 + fraction(uid) / 2) }
}

/** Of [0, 1), the same for the same text. */
function fraction(text: string): number {
  return createHash('sha256').update(text).digest().readUInt32BE() / 2 ** 32
}
