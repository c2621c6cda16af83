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

/** How long the answer counts that the Node does not exist, in milliseconds. */
const CHECK_MS = 10_000
const NEVER = Number.POSITIVE_INFINITY

/**
 * Keeps the agent out of Instances while its Node does not exist: the controller removes a deleted
 * node, and without this the two would write against each other for ever. The agent asks for its
 * Node only after another program has taken the node out of an Instance. An agent that may not read
 * its Node joins again: the controller makes growing pauses.
 */
export class OwnNode {
  readonly #options: OwnNodeOptions
  /**
   * The Instances that the node is in, and whether the agent leaves: in a large cluster, many
   * nodes leave before the controller comes to this one.
   */
  readonly #joined = new Map<ObjectKey, 'stays' | 'leaves'>()
  /** When to ask for the Node, by `monotonicMs`: an earlier answer says nothing of a change. */
  #checkAt = NEVER
  #isGone = false
  #checked = Promise.resolve()

  constructor(options: OwnNodeOptions, signal: AbortSignal) {
    this.#options = options
    options.instances.onChange((key) => this.#follow(key), signal)
  }

  /** Notes that this agent takes the node out of an Instance. */
  leaves(instance: ObjectKey): void {
    if (this.#joined.has(instance)) this.#joined.set(instance, 'leaves')
  }

  /** @throws NodeGoneError if the Node does not exist */
  async ensureExists(): Promise<void> {
    const { clock, node } = this.#options
    if (clock.monotonicMs() >= this.#checkAt) {
      this.#checkAt = NEVER
      this.#checked = this.#checked.then(() => this.#check())
    }
    await this.#checked
    if (this.#isGone) throw new NodeGoneError(`the cluster has no Node ${node}`)
  }

  async #check(): Promise<void> {
    const { client, clock, log, node } = this.#options
    const isGone = await new Resource(client, NODES).get(objectKey('', node)).then(
      (found) => found === undefined,
      (error: unknown) => {
        // The role of an operator may not allow the request.
        log.warn({ node, err: error }, 'Node not read')
        return false
      },
    )
    const wasGone = this.#isGone
    this.#isGone = isGone
    if (isGone) this.#checkAt = clock.monotonicMs() + CHECK_MS
    if (isGone && !wasGone)
      log.error({ node }, 'the Node was deleted: the agent is in no Instance until it exists again')
    if (wasGone && !isGone) log.info({ node }, 'the Node exists again')
  }

  #follow(key: ObjectKey): void {
    const { instances, node } = this.#options
    const before = this.#joined.get(key)
    if (instances.get(key)?.spec.nodes.includes(node)) this.#joined.set(key, before ?? 'stays')
    else if (this.#joined.delete(key) && before === 'stays' && this.#checkAt === NEVER)
      this.#checkAt = 0
  }
}

/**
 * The names of all resources in the status of a Node, also of those that nothing offers any more.
 * @returns undefined if there is no such Node
 */
export async function nodeResourceNames(
  client: ApiClient,
  name: NodeName,
): Promise<ReadonlySet<string> | undefined> {
  const found = await new Resource(client, NODES).get(objectKey('', name))
  if (found === undefined) return undefined
  const { status } = found as { status?: { capacity?: object; allocatable?: object } }
  return new Set(Object.keys({ ...status?.capacity, ...status?.allocatable }))
}
