import { createHash } from 'node:crypto'
import type { KubernetesObject } from '../kubernetes-objects.js'
import { ANNOTATIONS } from '../labels.js'

// How long an ended broker waits before it is created again. An annotation counts the restarts, so
// that another replica of the controller continues the back-off.

/** The wait before the second restart, and the longest wait, in milliseconds. */
const INITIAL_MS = 2000
const CEILING_MS = 5 * 60_000
/** A refused broker waits already before the first restart: the slot takes a moment to be free. */
const REFUSED_MS = 2000
/** A broker that ran for so long was no failure, in milliseconds. */
export const STABLE_MS = 10 * 60_000

export function restartsOf({ metadata }: KubernetesObject): number {
  const count = Number(metadata.annotations?.[ANNOTATIONS.restarts] ?? 0)
  return Number.isSafeInteger(count) && count > 0 ? Math.min(count, 1000) : 0
}

/** The last life of a broker. */
interface BrokerLife {
  /** Restarts in a row before this life. */
  readonly restarts: number
  /** Whether the kubelet did not admit the broker. */
  readonly refused: boolean
  /** How long the broker ran, in milliseconds. */
  readonly ranMs: number
}

/** The number of restarts in a row with the next one, and the wait before it, in milliseconds. */
export function restart(
  { restarts, refused, ranMs }: BrokerLife,
  uid: string,
): { readonly restarts: number; readonly waitMs: number } {
  const before = ranMs >= STABLE_MS ? 0 : restarts
  const firstMs = refused ? REFUSED_MS : 0
  const wait = before === 0 ? firstMs : Math.min(CEILING_MS, INITIAL_MS * 2 ** (before - 1))
  // Brokers that were refused together must not return together. The uid, unlike a random number,
  // gives the same wait in each plan.
  return { restarts: before + 1, waitMs: wait * (1 + fractionOf(uid) / 2) }
}

/** In [0, 1), the same for the same text. */
function fractionOf(text: string): number {
  return createHash('sha256').update(text).digest().readUInt32BE() / 2 ** 32
}
