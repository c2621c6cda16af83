import type { Instance } from '@akrijs/api'
import {
  type ApiClient,
  NODES,
  type NodeName,
  type ObjectKey,
  objectKey,
  type Reflector,
  Resource,
} from '@akrijs/kube'
import type { Clock, Logger } from '@akrijs/runtime'
import { NodeGoneError } from '../errors.js'

interface OwnNodeOptions {
  readonly client: ApiClient
  readonly clock: Clock
  readonly log: Logger
  readonly node: NodeName
  readonly instances: Reflector<Instance>
}

/** How long an answer about the Node counts, in milliseconds. */
const CHECK_MS = 10_000
/**
 * The pause after the second removal of a node that cannot be read, in milliseconds. It doubles
 * with each removal up to the most, and starts again after twice that time without a removal.
 */
const PAUSE_MS = 10_000
const MAX_PAUSE_MS = 300_000

const MAYBE_GONE =
  'another program takes the node out of Instances, and the agent cannot read its Node'

/**
 * Keeps the agent out of Instances while its Node does not exist: the controller removes a deleted
 * node, and without this the two would write against each other for ever. The agent asks for its
 * Node only after another program has taken the node out of an Instance.
 */
export class OwnNode {
  readonly #options: OwnNodeOptions
  readonly #nodes: Resource
  /** The Instances that the node is in. */
  readonly #joined = new Set<ObjectKey>()
  /** The Instances that the agent leaves. */
  readonly #leaving = new Set<ObjectKey>()
  #isSuspect = false
  #isGone = false
  /** When the Node was last asked for, by `monotonicMs`. */
  #checkedAt = Number.NEGATIVE_INFINITY
  #checking: Promise<void> | undefined
  /** How often another program took the node out, while the Node could not be read. */
  #removals = 0
  #removedAt = Number.NEGATIVE_INFINITY
  /** Until when the agent joins no Instance, by `monotonicMs`. */
  #pausedUntil = Number.NEGATIVE_INFINITY

  constructor(options: OwnNodeOptions, signal: AbortSignal) {
    this.#options = options
    this.#nodes = new Resource(options.client, NODES)
    options.instances.onChange((key) => this.#follow(key), signal)
  }

  /** Notes that this agent takes the node out of an Instance. */
  leaves(instance: ObjectKey): void {
    if (this.#joined.has(instance)) this.#leaving.add(instance)
  }

  /** @throws NodeGoneError if the Node does not exist, or may not exist */
  async ensureExists(): Promise<void> {
    const { clock, node } = this.#options
    if (clock.monotonicMs() < this.#pausedUntil) throw new NodeGoneError(MAYBE_GONE)
    if (!this.#isSuspect) return
    if (clock.monotonicMs() - this.#checkedAt >= CHECK_MS) {
      this.#checking ??= this.#check().finally(() => {
        this.#checking = undefined
      })
      await this.#checking
    }
    if (this.#isGone) throw new NodeGoneError(`the cluster has no Node ${node}`)
    if (clock.monotonicMs() < this.#pausedUntil) throw new NodeGoneError(MAYBE_GONE)
  }

  async #check(): Promise<void> {
    const { clock, log, node } = this.#options
    const isGone = await this.#nodes.get(objectKey('', node)).then(
      (found) => {
        this.#removals = 0
        return found === undefined
      },
      (error: unknown) => {
        // Without the answer, the agent goes on: the role of an operator may not allow the request.
        const doublings = this.#removals - 2
        const pauseMs = doublings < 0 ? 0 : Math.min(MAX_PAUSE_MS, PAUSE_MS * 2 ** doublings)
        this.#pausedUntil = clock.monotonicMs() + pauseMs
        log[pauseMs > 0 ? 'warn' : 'debug']({ node, pauseMs, err: error }, 'Node not read')
        return false
      },
    )
    this.#checkedAt = clock.monotonicMs()
    const wasGone = this.#isGone
    this.#isGone = isGone
    this.#isSuspect = this.#isGone
    if (this.#isGone && !wasGone)
      log.error({ node }, 'the Node was deleted: the agent is in no Instance until it exists again')
    if (!this.#isGone && wasGone) log.info({ node }, 'the Node exists again')
  }

  #follow(key: ObjectKey): void {
    const { instances, node } = this.#options
    if (instances.get(key)?.spec.nodes.includes(node)) {
      this.#joined.add(key)
      return
    }
    const isOwnChange = this.#leaving.delete(key)
    if (!this.#joined.delete(key) || isOwnChange) return
    if (!this.#isSuspect) this.#countRemoval()
    this.#isSuspect = true
    // An answer of before says nothing about this change.
    if (!this.#isGone) this.#checkedAt = Number.NEGATIVE_INFINITY
  }

  #countRemoval(): void {
    const now = this.#options.clock.monotonicMs()
    const isNew = now - this.#removedAt > 2 * MAX_PAUSE_MS
    this.#removals = isNew ? 1 : this.#removals + 1
    this.#removedAt = now
  }
}
