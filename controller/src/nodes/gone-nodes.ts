import {
  type ApiClient,
  ApiError,
  type Configuration,
  GROUP,
  heldSlots,
  holderOf,
  type Instance,
  type JsonPatch,
  keyOf,
  LEASES,
  type NodeName,
  type ObjectKey,
  objectKey,
  parseObjectMeta,
  pointer,
  Resource,
  releasePatch,
  type SlotName,
} from '@akrijs/kube'
import type { Clock, Logger } from '@akrijs/sdk'
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
 * Takes nodes that have gone out of Instances. A node whose agent lives leaves by itself; one that is deleted, or has not
 * been heard of for the grace period, cannot. What its Pods hold stays theirs until the cluster knows that they have ended.
 */
export class GoneNodes {
  readonly #options: Required<GoneNodesOptions>
  readonly #leases: Resource

  constructor(options: GoneNodesOptions) {
    this.#options = { graceMs: 5 * 60_000, ...options }
    this.#leases = new Resource(options.client, LEASES)
  }

  /** An Instance that no node sees any more, and of which nobody holds anything, has no reason to be. */
  async removeUnseen(key: ObjectKey): Promise<undefined> {
    const instance = this.#options.state.instances.cache.get(key)
    if (instance === undefined || instance.metadata.deletionTimestamp !== undefined) return
    if (instance.spec.nodes.length === 0 && heldSlots(instance.spec.deviceUsage) === 0) await this.#remove(instance)
  }

  /** @returns when to look again, in milliseconds since the epoch, if nothing happens before */
  async reconcile(node: NodeName): Promise<number | undefined> {
    const { state, clock, log } = this.#options
    const concerned = state.instances.cache.list().filter((instance) => isConcerned(instance, node))
    const marked = [...this.#finalizedBy(state.configurations, node), ...this.#finalizedBy(state.instances, node)]
    if (concerned.length === 0 && marked.length === 0) return undefined
    const gone = await this.#goneSince(node)
    if (gone.state === 'present') return gone.lookAgainAt
    for (const remove of marked) await remove()
    if (concerned.length === 0) return undefined
    const used = await resourcesOf(node, this.#options)
    let waits = false
    let left = 0
    for (const instance of concerned) {
      const isUsed = used.has(`${GROUP}/${instance.metadata.name}`) || used.has(`${GROUP}/${instance.spec.configurationName}`)
      waits ||= isUsed
      if (await this.#leave(instance, node, isUsed)) left++
    }
    if (left > 0) log.info({ node, instances: left, podsLeft: waits }, 'node has gone')
    return waits ? clock.time() + LOOK_AGAIN_MS : undefined
  }

  async #goneSince(node: NodeName): Promise<Presence> {
    const { state, clock, graceMs, signal } = this.#options
    const key = objectKey('', node)
    const known = state.nodes.cache.get(key)
    // The cache may not have heard of it yet.
    if (known === undefined) return { state: (await state.nodes.api.get(key, { signal })) === undefined ? 'gone' : 'present' }
    if (known.ready) return { state: 'present' }
    const silentSince = Math.max(known.readySince, (await this.#renewedAt(node)) ?? 0)
    const goneAt = silentSince + graceMs
    return goneAt <= clock.time() ? { state: 'gone' } : { state: 'present', lookAgainAt: goneAt }
  }

  /** When the node's kubelet last gave a sign of life, in milliseconds since the epoch. */
  async #renewedAt(node: NodeName): Promise<number | undefined> {
    const { signal } = this.#options
    const lease = await this.#leases.get(objectKey(LEASE_NAMESPACE, node), { signal })
    const { renewTime } = ((lease as { spec?: unknown } | undefined)?.spec ?? {}) as { renewTime?: unknown }
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
      await this.#remove(instance)
      return true
    }
    const patch: JsonPatch[number][] = freed.flatMap(([slot, usage]) => releasePatch(instance, slot as SlotName, usage))
    if (left.length < nodes.length)
      patch.push(
        { op: 'test', path: pointer('spec', 'nodes'), value: nodes },
        { op: 'remove', path: pointer('spec', 'nodes', String(nodes.indexOf(node))) },
      )
    if (patch.length === 0) return false
    const { cache, api } = state.instances
    const written = (changed: unknown) => cache.observe(changed)
    await api.patch(key, 'json', patch, { signal }).then(written, (error) => this.#overtaken(state.instances, instance, error))
    return true
  }

  /** A node that joins, or claims a slot, at this moment wins. */
  async #remove(instance: Instance): Promise<void> {
    const { state, signal } = this.#options
    const { uid, resourceVersion } = instance.metadata
    const preconditions = { uid, resourceVersion }
    await state.instances.api
      .delete(keyOf(instance), preconditions, { propagationPolicy: 'Background', signal })
      .catch((error) => this.#overtaken(state.instances, instance, error))
  }

  /** The existing system's agents put the names of their nodes there: nobody is left to take this one away. */
  #finalizedBy(kind: Kind<Configuration> | Kind<Instance>, node: NodeName): (() => Promise<void>)[] {
    const found = kind.cache.list().filter(({ metadata }) => metadata.finalizers?.includes(node))
    return found.map((object) => () => this.#removeFinalizer(kind, keyOf(object), node))
  }

  async #removeFinalizer(kind: Kind<Configuration> | Kind<Instance>, key: ObjectKey, node: NodeName): Promise<void> {
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
    await kind.api.patch(key, 'json', patch, { signal }).catch((error) => this.#overtaken(kind, { metadata }, error))
  }

  /** What was to be changed has changed meanwhile, which brings it back here, or has gone; or else the write itself is refused. */
  async #overtaken(kind: Kind<Configuration> | Kind<Instance>, { metadata }: KubernetesObject, error: unknown): Promise<void> {
    if (ApiError.is(error, 404) || ApiError.is(error, 409)) return
    // A test that failed, or a schema that does not allow it: the answer is the same.
    if (!ApiError.is(error, 422)) throw error
    const { signal } = this.#options
    const now = parseObjectMeta(await kind.api.get(keyOf({ metadata }), { signal }))
    if (now?.resourceVersion === metadata.resourceVersion) throw error
  }
}

const finalized = z.object({
  metadata: z.object({
    finalizers: z.array(z.string()),
    managedFields: z.array(z.object({ manager: z.string().catch('') })).catch([]),
  }),
})

type Presence = { readonly state: 'gone' } | { readonly state: 'present'; readonly lookAgainAt?: number }

/** Nodes that stand in an Instance, because they see the device or because they hold a slot of it. */
export function nodesOf({ spec }: Instance): Set<NodeName> {
  const holders = Object.values(spec.deviceUsage).flatMap((usage) => holderOf(usage) ?? [])
  return new Set([...spec.nodes, ...holders])
}

/** What may be the names of nodes in the finalizers of an object: those of others have a domain. */
export function markersOf({ metadata }: Configuration | Instance): NodeName[] {
  return (metadata.finalizers ?? []).filter((name) => !name.includes('/') && !BUILT_IN.has(name)) as NodeName[]
}

function isConcerned(instance: Instance, node: NodeName): boolean {
  return nodesOf(instance).has(node)
}
