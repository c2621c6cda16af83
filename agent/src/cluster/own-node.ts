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
import * as z from 'zod'
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
  /** Whether another program has taken the node out, and no answer has shown its Node since. */
  #isSuspect = false
  /** The last answer. One of before says nothing about the next change. */
  #exists = Promise.resolve(true)
  /** Until when the Node counts as gone, by `monotonicMs`. */
  #goneUntil = Number.NEGATIVE_INFINITY

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
    if (this.#isSuspect && clock.monotonicMs() >= this.#goneUntil) {
      this.#isSuspect = false
      this.#exists = this.#check(this.#exists)
    }
    if (!(await this.#exists)) throw new NodeGoneError(`the cluster has no Node ${node}`)
  }

  async #check(before: Promise<boolean>): Promise<boolean> {
    const { client, clock, log, node } = this.#options
    const exists = await new Resource(client, NODES).get(objectKey('', node)).then(
      (found) => found !== undefined,
      (error: unknown) => {
        // The role of an operator may not allow the request.
        log.warn({ node, err: error }, 'Node not read')
        return true
      },
    )
    const existed = await before
    if (!exists) {
      this.#isSuspect = true
      this.#goneUntil = clock.monotonicMs() + CHECK_MS
    }
    if (!exists && existed)
      log.error({ node }, 'the Node was deleted: the agent is in no Instance until it exists again')
    if (exists && !existed) log.info({ node }, 'the Node exists again')
    return exists
  }

  #follow(key: ObjectKey): void {
    const { instances, node } = this.#options
    const before = this.#joined.get(key)
    if (instances.get(key)?.spec.nodes.includes(node)) this.#joined.set(key, before ?? 'stays')
    else if (this.#joined.delete(key) && before === 'stays') this.#isSuspect = true
  }
}

const quantities = z.record(z.string(), z.unknown()).default({})
const nodeObject = z.object({
  status: z.object({ capacity: quantities, allocatable: quantities }),
})

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
  const { capacity, allocatable } = nodeObject.parse(found).status
  return new Set([...Object.keys(capacity), ...Object.keys(allocatable)])
}
