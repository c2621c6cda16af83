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
  if (index < 0 || !managedFields.some(({ manager }) => manager === `${node}-fin`)) return undefined
  const path = pointer('metadata', 'finalizers', String(index))
  return [
    { op: 'test', path, value: node },
    { op: 'remove', path },
  ]
}
