import { type JsonPatch, type NodeName, pointer } from '@akrijs/kube/objects'
import * as z from 'zod'
import type { Configuration, Instance } from './types.js'

// The agents of the existing system add the names of their nodes as finalizers. The finalizer of a
// lost node would keep an object from being deleted for ever.

/** Finalizers of Kubernetes itself that have no domain. */
const BUILT_IN = new Set(['orphan', 'foregroundDeletion'])

/** The finalizers that can be names of nodes: all other finalizers have a domain. */
export function finalizerNodes({
  metadata,
}: Pick<Configuration | Instance, 'metadata'>): NodeName[] {
  return (metadata.finalizers ?? []).filter(
    (name) => !name.includes('/') && !BUILT_IN.has(name),
  ) as NodeName[]
}

const metadata = z.object({
  metadata: z.object({
    finalizers: z.array(z.string()),
    managedFields: z.array(z.object({ manager: z.string().catch('') })).catch([]),
  }),
})

/**
 * Leaves out the finalizers of nodes that no agent of the existing system wrote: any user can write
 * thousands of names, and each finalizer of a node that is not there costs requests.
 * @param object as the API server returns it
 */
export function withFinalizersOfAgents<T extends Pick<Configuration | Instance, 'metadata'>>(
  parsed: T,
  object: unknown,
): T {
  const nodes = new Set<string>(finalizerNodes(parsed))
  if (nodes.size === 0) return parsed
  const { managedFields = [] } = metadata.safeParse(object).data?.metadata ?? {}
  const managers = new Set(managedFields.map(({ manager }) => manager))
  const finalizers = parsed.metadata.finalizers?.filter(
    (name) => !nodes.has(name) || managers.has(managerOf(name)),
  )
  return { ...parsed, metadata: { ...parsed.metadata, finalizers } }
}

/** The field manager of an agent of the existing system that writes the finalizer of its node. */
const managerOf = (node: string) => `${node}-fin`

/**
 * Removes the finalizer of a node. The field manager of such an agent proves that an agent wrote
 * the finalizer: another program's finalizer can have the same name.
 * @param object as the API server returns it
 * @returns undefined if no agent of the node wrote such a finalizer
 */
export function finalizerRemoval(object: unknown, node: NodeName): JsonPatch | undefined {
  const parsed = metadata.safeParse(object)
  if (!parsed.success) return undefined
  const { finalizers, managedFields } = parsed.data.metadata
  const index = finalizers.indexOf(node)
  if (index < 0 || !managedFields.some(({ manager }) => manager === managerOf(node)))
    return undefined
  const path = pointer('metadata', 'finalizers', String(index))
  return [
    { op: 'test', path, value: node },
    { op: 'remove', path },
  ]
}
