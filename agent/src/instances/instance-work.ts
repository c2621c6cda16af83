import { isDeepStrictEqual } from 'node:util'
import type { Instance } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import type { PlannedInstance } from './instance-plan.js'

/**
 * What a node does about an Instance. `serve`: only its plugin is missing. `capacity N`: the node
 * writes the capacity in place of the first node.
 */
export type InstanceWork = 'create' | 'join' | 'update' | `capacity ${number}` | 'leave' | 'serve'

/** An Instance with so many nodes is large. */
const LARGE = 10
/** Between the leaves of two nodes, in milliseconds. */
const LEAVE_MS = 10
const LONGEST_LEAVE_MS = 2000
/**
 * For each node that may create, in milliseconds. The first node waits for about as long, whatever
 * their number; those whose watch is slower than that are refused.
 */
const CREATION_MS = 20
const LONGEST_CREATION_MS = 5000
/**
 * How long each node of an Instance waits for the node before it to write a new capacity, in
 * milliseconds.
 */
const FIRST_NODE_MS = 5000

/** The write that this node makes so that the Instance follows its plan. */
export function writeTo(
  { existing, capacity, properties }: PlannedInstance,
  node: NodeName,
): InstanceWork | undefined {
  if (existing === undefined) return 'create'
  if (existing.metadata.deletionTimestamp !== undefined) return undefined
  const { spec } = existing
  const place = spec.nodes.indexOf(node)
  if (place < 0) return 'join'
  // Only the first node writes: two nodes that see a device differently would overwrite each other
  // for ever. The capacity is the same on all nodes, and the agent of the first may be down.
  if (place > 0) return spec.capacity === capacity ? undefined : `capacity ${capacity}`
  const isSame = spec.capacity === capacity && isDeepStrictEqual(spec.brokerProperties, properties)
  return isSame ? undefined : 'update'
}

interface Others {
  readonly node: NodeName
  /** How many nodes the cluster has at least. */
  readonly knownNodes: number
  /** Of [0, 1). */
  random(): number
}

/**
 * How long the work waits, in milliseconds: all nodes would write at the same moment when a shared
 * device comes or goes. The node that creates the Instance first spares the others a refused
 * request.
 */
export function waitMs(
  work: InstanceWork,
  instance: Instance | undefined,
  isShared: boolean,
  { node, knownNodes, random }: Others,
): number {
  if (work === 'create' && isShared && knownNodes > 1)
    return random() * Math.min(LONGEST_CREATION_MS, CREATION_MS * (knownNodes - 1))
  if (instance === undefined) return 0
  if (work === 'leave') return leaveWaitMs(instance, node)
  return work.startsWith('capacity') ? instance.spec.nodes.indexOf(node) * FIRST_NODE_MS : 0
}

/** The last places leave first, because a leave moves the places behind it. */
export function leaveWaitMs({ spec: { nodes } }: Instance, node: NodeName): number {
  const place = nodes.indexOf(node)
  if (nodes.length < LARGE || place < 0) return 0
  const behind = nodes.length - 1 - place
  return Math.min(LEAVE_MS, LONGEST_LEAVE_MS / nodes.length) * behind
}
