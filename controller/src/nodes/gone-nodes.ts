import {
  type Configuration,
  conditionsOf,
  GROUP,
  heldSlots,
  holderOf,
  type Instance,
  parseObjectMeta,
  releasePatch,
  type SlotName,
} from '@akrijs/api'
import {
  type ApiClient,
  ApiError,
  type JsonPatch,
  keyOf,
  LEASES,
  type NodeName,
  type ObjectKey,
  objectKey,
  pointer,
  Resource,
} from '@akrijs/kube'
import type { Clock, Logger } from '@akrijs/runtime'
import * as z from 'zod'
import type { ClusterState, Kind } from '../cluster-state.js'
import type { KubernetesObject } from '../objects.js'
import { resourcesOf } from './node-pods.js'

export interface GoneNodesOptions {
  readonly state: ClusterState
  readonly client: ApiClient
  readonly clock: Clock
  readonly log: Logger
  /** How long a node may be silent before it counts as gone, in milliseconds. @default 300000 */
  readonly graceMs?: number
  /** Ends with the controller's turn. */
  readonly signal: AbortSignal
}

/** How often it is looked again whether the Pods of a node that has gone are gone as well, in milliseconds. */
const LOOK_AGAIN_MS = 10_000
/** Where each node's own sign of life is. */
const LEASE_NAMESPACE = 'kube-node-lease'
/** Finalizers of Kubernetes itself. */
const BUILT_IN = new Set(['orphan', 'foregroundDeletion'])

/**
 * Takes nodes that have gone out of Instances, and out of the status of Configurations. A node whose agent lives leaves by itself;
 * one that is deleted, or has not been heard of for the grace period, cannot. What its Pods hold stays theirs until the cluster
 * knows that they have ended.
 */
export class GoneNodes {
  readonly #options: Required<GoneNodesOptions>
  readonly #leases: Resource
  /** When a node was last taken out of an Instance, in milliseconds since the epoch. */
  readonly #leftAt = new Map<string, number>()

  constructor(options: GoneNodesOptions) {
    this.#options = { graceMs: 5 * 60_000, ...options }
    this.#leases = new Resource(options.client, LEASES)
  }

  /** An Instance that no node sees any more, and of which nobody holds anything, has no reason to be. */
  async removeUnseen(key: ObjectKey): Promise<undefined> {
    const instance = this.#options.state.instances.cache.get(key)
    if (instance === undefined || instance.metadata.deletionTimestamp !== undefined) return
    if (instance.spec.nodes.length === 0 && heldSlots(instance.spec.deviceUsage) === 0)
      await this.#remove(instance)
  }

  /** @returns when to look again, in milliseconds since the epoch, if nothing happens before */
  async reconcile(node: NodeName): Promise<number | undefined> {
    const { state, clock, log } = this.#options
    const concerned = state.instances.cache.list().filter((instance) => isConcerned(instance, node))
    const marked = [
      ...this.#finalizedBy(state.configurations, node),
      ...this.#finalizedBy(state.instances, node),
    ]
    const reported = state.configurations.cache
      .list()
      .filter((configuration) => reportersOf(configuration).includes(node))
    if (concerned.length + marked.length + reported.length === 0) return undefined
    const gone = await this.#goneSince(node)
    if (gone.state === 'present') return earliest(gone.lookAgainAt, await this.#release(marked))
    for (const { remove } of marked) await remove()
    // One that is only silent may still have an agent that says it again.
    if (gone.state === 'deleted')
      for (const configuration of reported) await this.#forget(configuration, node)
    if (concerned.length === 0) return undefined
    for (const [place, at] of this.#leftAt)
      if (at + this.#options.graceMs <= clock.wallMs()) this.#leftAt.delete(place)
    const used = await resourcesOf(node, this.#options)
    let waits = false
    let left = 0
    let next: number | undefined
    for (const instance of concerned) {
      const backAt = this.#backAt(node, instance, gone)
      if (backAt !== undefined) {
        next = earliest(next, backAt)
        continue
      }
      const isUsed =
        used.has(`${GROUP}/${instance.metadata.name}`) ||
        used.has(`${GROUP}/${instance.spec.configurationName}`)
      waits ||= isUsed
      if (!(await this.#leave(instance, node, isUsed))) continue
      this.#leftAt.set(`${node} ${keyOf(instance)}`, clock.wallMs())
      left++
    }
    if (left > 0) log.info({ node, instances: left, podsLeft: waits }, 'node has gone')
    return waits ? earliest(next, clock.wallMs() + LOOK_AGAIN_MS) : next
  }

  /**
   * A node that is silent and stands again in an Instance which it was taken out of has an agent that lives, though no kubelet:
   * the two of them must not go on for ever.
   * @returns when it is to be taken out again, in milliseconds since the epoch; undefined where that is now
   */
  #backAt(node: NodeName, instance: Instance, gone: Presence): number | undefined {
    if (gone.state !== 'silent' || !instance.spec.nodes.includes(node)) return undefined
    const leftAt = this.#leftAt.get(`${node} ${keyOf(instance)}`)
    return leftAt === undefined ? undefined : leftAt + this.#options.graceMs
  }

  async #goneSince(node: NodeName): Promise<Presence> {
    const { state, clock, graceMs, signal } = this.#options
    const key = objectKey('', node)
    const known = state.nodes.cache.get(key)
    // The cache may not have heard of it yet.
    if (known === undefined)
      return {
        state: (await state.nodes.api.get(key, { signal })) === undefined ? 'deleted' : 'present',
      }
    if (known.ready) return { state: 'present' }
    const silentSince = Math.max(known.readySince, (await this.#renewedAt(node)) ?? 0)
    const goneAt = silentSince + graceMs
    return goneAt <= clock.wallMs()
      ? { state: 'silent' }
      : { state: 'present', lookAgainAt: goneAt }
  }

  /** When the node's kubelet last gave a sign of life, in milliseconds since the epoch. */
  async #renewedAt(node: NodeName): Promise<number | undefined> {
    const { signal } = this.#options
    const lease = await this.#leases.get(objectKey(LEASE_NAMESPACE, node), { signal })
    const { renewTime } = ((lease as { spec?: unknown } | undefined)?.spec ?? {}) as {
      renewTime?: unknown
    }
    const time = typeof renewTime === 'string' ? Date.parse(renewTime) : Number.NaN
    return Number.isNaN(time) ? undefined : time
  }

  /**
   * Takes the node out, frees its slots unless they are used, and deletes an Instance that nobody sees or uses.
   * @returns whether there was anything to do
   */
  async #leave(instance: Instance, node: NodeName, isUsed: boolean): Promise<boolean> {
    const { state, signal } = this.#options
    const key = keyOf(instance)
    const { nodes, deviceUsage } = instance.spec
    const held = Object.entries(deviceUsage).filter(([, usage]) => holderOf(usage) === node)
    const freed = isUsed ? [] : held
    const left = nodes.filter((name) => name !== node)
    if (left.length === 0 && heldSlots(deviceUsage) === freed.length) {
      return this.#remove(instance)
    }
    const patch: JsonPatch[number][] = freed.flatMap(([slot, usage]) =>
      releasePatch(instance, slot as SlotName, usage),
    )
    if (left.length < nodes.length)
      patch.push(
        { op: 'test', path: pointer('spec', 'nodes'), value: nodes },
        { op: 'remove', path: pointer('spec', 'nodes', String(nodes.indexOf(node))) },
      )
    if (patch.length === 0) return false
    const { cache, api } = state.instances
    const written = (changed: unknown) => {
      cache.observe(changed)
      return true
    }
    const refused = (error: unknown) => this.#overtaken(state.instances, instance, error)
    return api.patch(key, 'json', patch, { signal }).then(written, refused)
  }

  /** A node that joins, or claims a slot, at this moment wins. @returns whether none did */
  #remove(instance: Instance): Promise<boolean> {
    const { state, signal } = this.#options
    const { uid, resourceVersion } = instance.metadata
    const preconditions = { uid, resourceVersion }
    return state.instances.api
      .delete(keyOf(instance), preconditions, { propagationPolicy: 'Background', signal })
      .then(
        () => true,
        (error: unknown) => this.#overtaken(state.instances, instance, error),
      )
  }

  /** The existing system's agents put the names of their nodes there: nobody is left to take this one away. */
  #finalizedBy(kind: Kind<Configuration> | Kind<Instance>, node: NodeName): Marked[] {
    const found = kind.cache.list().filter(({ metadata }) => metadata.finalizers?.includes(node))
    return found.map((object) => ({
      deletedAt: Date.parse(object.metadata.deletionTimestamp ?? ''),
      remove: () => this.#removeFinalizer(kind, keyOf(object), node),
    }))
  }

  /**
   * Lets go of what is being deleted and has waited for the grace period: an agent of the existing system that still ran on the
   * node would have done so long ago.
   * @returns when the next one will have waited so long, in milliseconds since the epoch
   */
  async #release(marked: readonly Marked[]): Promise<number | undefined> {
    const { clock, graceMs } = this.#options
    let next: number | undefined
    for (const { deletedAt, remove } of marked) {
      if (Number.isNaN(deletedAt)) continue
      if (deletedAt + graceMs <= clock.wallMs()) await remove()
      else next = earliest(next, deletedAt + graceMs)
    }
    return next
  }

  /** What the node has said of the Configuration nobody stands for any more; else it would not be ready for ever. */
  async #forget(configuration: Configuration, node: NodeName): Promise<void> {
    const { state, clock, signal } = this.#options
    const { metadata, status } = configuration
    const { [node]: _gone, ...left } = status?.nodes ?? {}
    const conditions = conditionsOf(
      left,
      status?.conditions ?? [],
      new Date(clock.wallMs()).toISOString(),
    )
    // With the version, so that the conditions are made of what stands there.
    const patch = {
      metadata: { resourceVersion: metadata.resourceVersion },
      status: { conditions, nodes: { [node]: null } },
    }
    const { cache, api } = state.configurations
    const written = (changed: unknown) => cache.observe(changed)
    await api
      .patch(keyOf(configuration), 'merge', patch, { signal, subresource: 'status' })
      .then(written, (error) => this.#overtaken(state.configurations, configuration, error))
  }

  async #removeFinalizer(
    kind: Kind<Configuration> | Kind<Instance>,
    key: ObjectKey,
    node: NodeName,
  ): Promise<void> {
    const { signal } = this.#options
    const found = await kind.api.get(key, { signal })
    const metadata = parseObjectMeta(found)
    const parsed = finalized.safeParse(found)
    if (metadata === undefined || !parsed.success) return
    const { finalizers, managedFields } = parsed.data.metadata
    const index = finalizers.indexOf(node)
    // Anybody's finalizer could have the name of what was a node: by this one it is known that an agent wrote it.
    if (index < 0 || !managedFields.some(({ manager }) => manager === `${node}-fin`)) return
    const path = pointer('metadata', 'finalizers', String(index))
    const patch: JsonPatch = [
      { op: 'test', path, value: node },
      { op: 'remove', path },
    ]
    await kind.api
      .patch(key, 'json', patch, { signal })
      .catch((error) => this.#overtaken(kind, { metadata }, error))
  }

  /**
   * What was to be changed has changed meanwhile, which brings it back here, or has gone; or else the write itself is refused.
   * @returns false: nothing has been written
   */
  async #overtaken(
    kind: Kind<Configuration> | Kind<Instance>,
    { metadata }: KubernetesObject,
    error: unknown,
  ): Promise<false> {
    if (ApiError.is(error, 404) || ApiError.is(error, 409)) return false
    // A test that failed, or a schema that does not allow it: the answer is the same.
    if (!ApiError.is(error, 422)) throw error
    const { signal } = this.#options
    const now = parseObjectMeta(await kind.api.get(keyOf({ metadata }), { signal }))
    if (now?.resourceVersion === metadata.resourceVersion) throw error
    return false
  }
}

const finalized = z.object({
  metadata: z.object({
    finalizers: z.array(z.string()),
    managedFields: z.array(z.object({ manager: z.string().catch('') })).catch([]),
  }),
})

/** What has the finalizer of a node. */
interface Marked {
  /** When it was to be deleted, in milliseconds since the epoch; NaN where it is not. */
  readonly deletedAt: number
  remove(): Promise<void>
}

type Presence =
  | { readonly state: 'deleted' | 'silent' }
  | { readonly state: 'present'; readonly lookAgainAt?: number }

/** Nodes that stand in an Instance, because they see the device or because they hold a slot of it. */
export function nodesOf({ spec }: Instance): Set<NodeName> {
  const holders = Object.values(spec.deviceUsage).flatMap((usage) => holderOf(usage) ?? [])
  return new Set([...spec.nodes, ...holders])
}

/** What may be the names of nodes in the finalizers of an object: those of others have a domain. */
export function markersOf({ metadata }: Configuration | Instance): NodeName[] {
  return (metadata.finalizers ?? []).filter(
    (name) => !name.includes('/') && !BUILT_IN.has(name),
  ) as NodeName[]
}

/** The nodes that have said something of a Configuration. */
export function reportersOf({ status }: Configuration): NodeName[] {
  return Object.keys(status?.nodes ?? {}) as NodeName[]
}

function earliest(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? (a ?? b) : Math.min(a, b)
}

function isConcerned(instance: Instance, node: NodeName): boolean {
  return nodesOf(instance).has(node)
}
