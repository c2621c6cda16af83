import type { Instance } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube'
import * as z from 'zod'
import { isDeleted, type Pod } from '../kubernetes-objects.js'
import { ANNOTATIONS } from '../labels.js'

// What the brokers of an Instance that have gone leave to their successors. An annotation of the
// Instance has it, and is written before a broker is deleted: another replica of the controller
// continues from there, whenever this one ends.

export interface BrokerHistory {
  /** What the last broker of a node leaves to the next one; that of a Job under {@link JOB}. */
  readonly left: Readonly<Record<string, Legacy>>
  /** The nodes that had no room for their broker, the last one at the end. */
  readonly full: readonly string[]
}

/**
 * `working`: the broker worked, and no successor has worked since: a roll-out waits for it.
 * `broken`: the broker did not work, so no roll-out waits for its successor.
 */
export type Replaced = 'working' | 'broken'

export interface Legacy {
  /** The uid of the broker, if the controller deleted it. */
  readonly uid?: string | undefined
  /** How often in a row the broker was restarted after its end. @default 0 */
  readonly restarts?: number | undefined
  readonly replaced?: Replaced | undefined
  /** How often in a row another client deleted the broker soon after its creation. @default 0 */
  readonly vanished?: number | undefined
}

/** What a Pod has replaced. After its own deletion was announced: what it leaves. */
export function replacedBy(
  { left }: BrokerHistory,
  { targetNode }: Pick<Pod, 'targetNode'>,
): Replaced | undefined {
  return targetNode && left[targetNode]?.replaced
}

/** The Job of an Instance, in place of the name of a node. */
export const JOB = ''

/** The longest annotation that is read: any user who may edit Instances can write it. */
const MAX_LENGTH = 64 * 1024

const count = z.number().int().min(0).max(1000).optional().catch(undefined)
const legacy = z.object({
  uid: z.string().optional().catch(undefined),
  restarts: count,
  replaced: z.enum(['working', 'broken']).optional().catch(undefined),
  vanished: count,
})
const history = z.object({
  left: z.record(z.string(), legacy).catch({}),
  full: z.array(z.string()).catch([]),
})

const NO_HISTORY: BrokerHistory = { left: {}, full: [] }

/** The history of an Instance; empty if its annotation makes no sense. */
export function historyOf({ metadata }: Pick<Instance, 'metadata'>): BrokerHistory {
  const text = metadata.annotations?.[ANNOTATIONS.brokers]
  if (text === undefined || text.length > MAX_LENGTH) return NO_HISTORY
  try {
    return history.parse(JSON.parse(text))
  } catch {
    return NO_HISTORY
  }
}

/** The value of the annotation; null for an empty history. */
export function historyText({ left, full }: BrokerHistory): string | null {
  if (Object.keys(left).length + full.length === 0) return null
  const sorted = Object.entries(left).toSorted(([a], [b]) => (a < b ? -1 : 1))
  return JSON.stringify({
    ...(sorted.length > 0 && { left: Object.fromEntries(sorted) }),
    ...(full.length > 0 && { full }),
  })
}

/** The history after the last broker of a node was deleted. */
export function withLegacy(
  { left, full }: BrokerHistory,
  node: string,
  { uid, restarts = 0, replaced, vanished = 0 }: Legacy,
): BrokerHistory {
  const { [node]: _before, ...others } = left
  if (restarts === 0 && vanished === 0 && replaced === undefined) return { left: others, full }
  const entry = {
    ...(uid !== undefined && { uid }),
    ...(restarts > 0 && { restarts }),
    ...(replaced !== undefined && { replaced }),
    ...(vanished > 0 && { vanished }),
  }
  return { left: { ...others, [node]: entry }, full }
}

/** The history after a broker is to start on a node, or, with `full`, has found no room there. */
export function withRoom(
  { left, full }: BrokerHistory,
  node: string,
  room: 'free' | 'full',
): BrokerHistory {
  const others = full.filter((other) => other !== node)
  return { left, full: room === 'full' ? [...others, node] : others }
}

/**
 * The node whose last broker the successor on a node replaces: the node itself, or else another one
 * without a broker, because a broker may move.
 */
export function predecessorOf(
  { left }: BrokerHistory,
  node: NodeName,
  pods: readonly Pod[],
): string | undefined {
  const isOpen = (from: string) =>
    !pods.some((pod) => pod.targetNode === from && !isDeleted(pod)) && left[from]?.replaced
  if (isOpen(node)) return node
  const open = Object.keys(left).filter((from) => from !== JOB && isOpen(from))
  return open.find((from) => left[from]?.replaced === 'working') ?? open[0]
}
