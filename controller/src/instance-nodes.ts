import {
  type Compatibility,
  heldSlots,
  holderOf,
  type Instance,
  isUnlabelled,
  labelPatch,
  type Membership,
  parseObjectMeta,
  releasePatch,
  type SlotName,
  sameVersion,
} from '@akrijs/api'
import {
  ApiError,
  type JsonPatch,
  keyOf,
  type NodeName,
  type ObjectKey,
  objectKey,
  pointer,
  type Resource,
} from '@akrijs/kube'
import type { Collection } from './collection.js'
import { isDeleted, type KubernetesObject } from './kubernetes-objects.js'
import type { Term } from './term.js'

// How nodes join and leave an Instance: all in one write, as N writes would wake N agents each.

/** What the controller does to an Instance. */
export type InstanceChange =
  | { readonly do: 'nothing' }
  /** No node sees the device or claims a slot any more. */
  | { readonly do: 'delete' }
  /** The patch tests the version that it builds on. */
  | { readonly do: 'patch'; readonly patch: JsonPatch }

/** What nodes want of one Instance. */
export type Wishes = ReadonlyMap<NodeName, Membership>

/** @param isPresent whether the agent of the node is there: other reports are old */
export function planMemberships(
  instance: Instance,
  wishes: Wishes,
  isPresent: (node: NodeName) => boolean,
  compatibility?: Compatibility,
): InstanceChange {
  const { metadata, spec } = instance
  // An agent creates and deletes the Instance of a device that is not shared.
  if (!spec.shared || metadata.deletionTimestamp !== undefined) return { do: 'nothing' }
  const present = new Set(spec.nodes)
  const wanting = (wish: Membership['wish']) =>
    [...wishes].flatMap(([node, wanted]) =>
      wanted.uid === metadata.uid && wanted.wish === wish && isPresent(node) ? node : [],
    )
  const joining = wanting('join').filter((node) => !present.has(node))
  const leaving = new Set(wanting('leave').filter((node) => present.has(node)))
  return joining.length + leaving.size === 0
    ? { do: 'nothing' }
    : change(instance, joining.sort(), leaving, leaving, compatibility)
}

/** @param isUsed whether Pods of the node may still use the device: their slots stay claimed */
export function planDeparture(
  instance: Instance,
  node: NodeName,
  isUsed: boolean,
  compatibility?: Compatibility,
): InstanceChange {
  const leaving = new Set([node])
  return change(instance, [], leaving, isUsed ? new Set() : leaving, compatibility)
}

/** @param releasing the nodes whose slots are released */
function change(
  instance: Instance,
  joining: readonly NodeName[],
  leaving: ReadonlySet<NodeName>,
  releasing: ReadonlySet<string>,
  compatibility?: Compatibility,
): InstanceChange {
  const { deviceUsage, nodes: before } = instance.spec
  const nodes = [...before.filter((node) => !leaving.has(node)), ...joining]
  const released = Object.entries(deviceUsage).filter(([, usage]) =>
    releasing.has(holderOf(usage) ?? ''),
  )
  if (nodes.length === 0 && heldSlots(deviceUsage) === released.length) return { do: 'delete' }
  const patch: JsonPatch[number][] = released.flatMap(([slot, usage]) =>
    releasePatch(instance, slot as SlotName, usage, compatibility),
  )
  if (nodes.length !== before.length || joining.length > 0)
    patch.unshift({ op: 'replace', path: pointer('spec', 'nodes'), value: nodes })
  return patch.length === 0
    ? { do: 'nothing' }
    : { do: 'patch', patch: [sameVersion(instance), ...patch] }
}

/**
 * Carries out a change. A node that joins, or claims a slot, at the same moment wins: its write
 * changes the version.
 * @returns whether the Instance was changed
 */
export async function changeInstance(
  { cache, api }: Collection<Instance>,
  instance: Instance,
  change: InstanceChange,
  signal: AbortSignal,
): Promise<boolean> {
  if (change.do === 'nothing') return false
  return unlessOvertaken(api, instance, signal, async () => {
    if (change.do === 'patch')
      cache.observe(await api.patch(keyOf(instance), 'json', change.patch, { signal }))
    else {
      const { uid, resourceVersion } = instance.metadata
      const options = { propagationPolicy: 'Background', signal } as const
      await api.delete(keyOf(instance), { uid, resourceVersion }, options)
    }
  })
}

/** Lets nodes join and leave shared Instances, as their reports ask. */
export class Memberships {
  readonly #term: Term
  /**
   * Wishes to leave that have come true, by node. A report can have them for long after, and the
   * node may have joined again by itself: for containers that run there.
   */
  readonly #hasLeft = new Map<NodeName, Set<string>>()

  constructor(term: Term) {
    this.#term = term
  }

  /**
   * Follows the report of a node.
   * @returns the Instances that the node wants to join or leave
   */
  follow(node: NodeName): readonly ObjectKey[] {
    const { memberships = {} } = this.#term.state.reports.cache.get(objectKey('', node)) ?? {}
    const wishes = Object.entries(memberships) as [ObjectKey, Membership][]
    const before = this.#hasLeft.get(node)
    if (before !== undefined) {
      const ids = wishes.map(([key, wish]) => idOf(key, wish)).filter((id) => before.has(id))
      if (ids.length === 0) this.#hasLeft.delete(node)
      else this.#hasLeft.set(node, new Set(ids))
    }
    return wishes.map(([key]) => key)
  }

  async reconcile(key: ObjectKey, signal: AbortSignal): Promise<void> {
    const { state, log, compatibility } = this.#term
    const instance = state.instances.cache.get(key)
    // An agent creates and deletes the Instance of a device that is not shared.
    if (!instance?.spec.shared) return
    const { metadata, spec } = instance
    const wishes = new Map<NodeName, Membership>()
    for (const report of state.reports.cache.list()) {
      const { name: node } = report.metadata
      const wish = report.memberships[key]
      if (wish === undefined) continue
      const isOut = wish.uid === metadata.uid && !spec.nodes.includes(node)
      if (wish.wish === 'leave' && isOut) this.#leave(node, key, wish)
      else if (!this.#hasLeft.get(node)?.has(idOf(key, wish))) wishes.set(node, wish)
    }
    if (wishes.size === 0) return
    // After a node was taken out, the report of its former agent still asks to join.
    const isPresent = (node: NodeName) => state.reportIndex.presence(node) === 'present'
    const change = planMemberships(instance, wishes, isPresent, compatibility)
    // After a lost race, the watch shows the Instance as it is now.
    if (await changeInstance(state.instances, instance, change, signal)) {
      for (const [node, wish] of wishes)
        if (wish.wish === 'leave' && isPresent(node)) this.#leave(node, key, wish)
      log.debug({ instance: key, change: change.do }, 'nodes of the Instance changed')
    }
  }

  #leave(node: NodeName, instance: ObjectKey, wish: Membership): void {
    const id = idOf(instance, wish)
    // During the write, the agent may have taken the wish back.
    const now = this.#term.state.reports.cache.get(objectKey('', node))?.memberships[instance]
    if (now === undefined || idOf(instance, now) !== id) return
    this.#hasLeft.set(node, (this.#hasLeft.get(node) ?? new Set<string>()).add(id))
  }
}

function idOf(instance: ObjectKey, { wish, uid }: Membership): string {
  return `${wish} ${uid} ${instance}`
}

/**
 * Labels an Instance of a program that writes no labels, such as an agent of Akri 0.13. Agents
 * watch labelled Instances only.
 */
export async function labelInstance(
  key: ObjectKey,
  { state: { instances } }: Term,
  signal: AbortSignal,
): Promise<void> {
  const { api, cache } = instances
  const instance = cache.get(key)
  if (instance === undefined || isDeleted(instance) || !isUnlabelled(instance)) return
  await unlessOvertaken(api, instance, signal, async () =>
    cache.observe(await api.patch(key, 'merge', labelPatch(instance), { signal })),
  )
}

/**
 * Writes a change that tests the state that it builds on. If the object has changed or gone
 * meanwhile, nothing is written, and the watch event starts the next reconcile.
 * @returns whether the change was written
 * @throws ApiError if the API server refuses the write itself
 */
export async function unlessOvertaken(
  api: Resource,
  object: KubernetesObject,
  signal: AbortSignal,
  write: () => Promise<unknown>,
): Promise<boolean> {
  try {
    await write()
    return true
  } catch (error) {
    if (ApiError.is(error, 404) || ApiError.is(error, 409)) return false
    // A failed test and a violated schema give the same status.
    if (!ApiError.is(error, 422)) throw error
    const current = parseObjectMeta(await api.get(keyOf(object), { signal }))
    if (current?.resourceVersion === object.metadata.resourceVersion) throw error
    return false
  }
}
