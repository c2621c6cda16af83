import type { Instance } from '@akrijs/api'
import type { NodeName, ObjectKey } from '@akrijs/kube/objects'
import type { Clock } from '@akrijs/runtime'
import type { InstanceWork } from './instance-work.js'

/** An Instance with so many nodes is large. */
const LARGE = 10
/** Between the leaves of two nodes, in milliseconds. */
const LEAVE_MS = 10
/**
 * For each node that may create, in milliseconds. The first node waits for about as long, whatever
 * their number; those whose watch is slower than that are refused.
 */
const CREATION_MS = 20
/** The longest waits, in milliseconds. */
const LONGEST_LEAVE_MS = 2000
const LONGEST_CREATION_MS = 5000

interface WriteSpreadOptions {
  readonly clock: Clock
  readonly node: NodeName
  /** How many nodes the cluster has at least. */
  knownNodes(): number
  /** Of [0, 1). */
  random(): number
}

/**
 * Spreads the writes that all nodes would make at the same moment: a shared device comes and goes
 * for all of them. The node that creates the Instance first spares the others a refused request.
 */
export class WriteSpread {
  readonly #options: WriteSpreadOptions
  /** The times of the writes that wait, by Configuration and by the write. */
  readonly #due = new Map<ObjectKey, Map<string, number>>()

  constructor(options: WriteSpreadOptions) {
    this.#options = options
  }

  /**
   * The time until this node does the work, in milliseconds. A write that fails after its time
   * does not wait again.
   */
  remaining(configuration: ObjectKey, work: InstanceWork): number {
    const now = this.#options.clock.monotonicMs()
    const due = this.#due.get(configuration) ?? new Map<string, number>()
    const title = titleOf(work)
    const at = due.get(title) ?? now + this.#waitMs(work)
    due.set(title, at)
    this.#due.set(configuration, due)
    return Math.max(0, at - now)
  }

  /** Forgets the work that there is no longer. */
  follow(configuration: ObjectKey, work: readonly InstanceWork[]): void {
    const due = this.#due.get(configuration)
    if (due === undefined) return
    const present = new Set(work.map(titleOf))
    for (const title of due.keys()) if (!present.has(title)) due.delete(title)
    if (due.size === 0) this.#due.delete(configuration)
  }

  #waitMs(work: InstanceWork): number {
    const { node, random, knownNodes } = this.#options
    if ('leave' in work) return leaveWaitMs(work.leave.instance, node)
    const { existing, shared } = work.serve
    const others = knownNodes() - 1
    return existing === undefined && shared && others > 0
      ? random() * Math.min(LONGEST_CREATION_MS, CREATION_MS * others)
      : 0
  }
}

/**
 * How long a node waits before it leaves an Instance, in milliseconds. The last places leave first,
 * because a leave moves the places behind it.
 */
export function leaveWaitMs({ spec: { nodes } }: Instance, node: NodeName): number {
  const place = nodes.indexOf(node)
  if (nodes.length < LARGE || place < 0) return 0
  const behind = nodes.length - 1 - place
  return Math.min(LEAVE_MS, LONGEST_LEAVE_MS / nodes.length) * behind
}

/** A node that creates an Instance must not wait again to join the Instance. */
function titleOf(work: InstanceWork): string {
  const write = 'leave' in work ? 'leave' : work.serve.existing === undefined ? 'create' : 'join'
  return `${write} ${work.name}`
}
