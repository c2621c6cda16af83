import { isDeepStrictEqual } from 'node:util'
import type { Configuration, Instance } from '@akrijs/api'
import { keyOf, type NodeName } from '@akrijs/kube/objects'
import type { Clock, Logger } from '@akrijs/runtime'
import type { Cluster } from '../cluster/cluster.js'
import type { AllocationLedger } from '../slots/allocation-ledger.js'
import { deviceIdAnnotation } from './existing-instances.js'
import { cdiName } from './instance-name.js'
import type { LeftInstance, PlannedInstance } from './instance-plan.js'

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
/** When a node looks again that has asked to join or to leave an Instance, in milliseconds. */
const ASKED_MS = 5000

export interface InstanceWorkOptions {
  readonly cluster: Cluster
  /** The claims of running containers in a recreated Instance. */
  readonly ledger: AllocationLedger
  readonly node: NodeName
  readonly clock: Clock
  readonly log: Logger
}

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

/**
 * How long the work waits, in milliseconds: all nodes would write at the same moment when a shared
 * device comes or goes. The node that creates the Instance first saves the others a refused
 * request.
 * @param random of [0, 1)
 */
export function waitMs(
  work: InstanceWork,
  instance: Instance | undefined,
  isShared: boolean,
  { node, cluster: { knownNodes } }: Pick<InstanceWorkOptions, 'node' | 'cluster'>,
  random: () => number,
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

/**
 * Makes an Instance follow the plan.
 * @returns when to look again, in milliseconds; infinite if an event comes first
 */
export async function writeInstance(
  { cluster, ledger, node, log }: InstanceWorkOptions,
  configuration: Configuration,
  planned: PlannedInstance,
  work: InstanceWork,
): Promise<number> {
  const { key, name: instance, capacity, device, properties } = planned
  const deviceUsage = ledger.claimsIn(instance)
  if (work === 'create') {
    const { namespace, name } = configuration.metadata
    const outcome = await cluster.createInstance({
      ...{ name: instance, namespace, owner: configuration },
      annotations: deviceIdAnnotation(device.id),
      spec: {
        ...{ configurationName: name, cdiName: cdiName(name, planned.digest), capacity },
        ...{ brokerProperties: properties, shared: planned.shared, nodes: [node], deviceUsage },
      },
    })
    // Otherwise another node was first, or an Instance of that name is being deleted. Its change
    // starts a reconcile.
    if (outcome === 'created') log.info({ instance, device: device.id }, 'instance created')
  } else if (work === 'join') {
    const outcome = await cluster.joinInstance(key, node, deviceUsage)
    if (outcome === 'asked') return ASKED_MS
    if (outcome === 'joined') log.info({ instance }, 'instance joined')
  } else if (work === 'update') {
    const outcome = await cluster.updateInstance(key, { capacity, brokerProperties: properties })
    if (outcome === 'updated') log.info({ instance }, 'instance updated')
  } else if (work !== 'serve') {
    // The agent of the first node may be down. The cache of this node may be behind an edit.
    const now = await cluster.readConfiguration(keyOf(configuration))
    const isPresent =
      now?.metadata.uid === configuration.metadata.uid && now.spec.capacity === capacity
    if (isPresent && (await cluster.updateInstance(key, { capacity })) === 'updated')
      log.info({ instance, capacity }, 'instance updated for its first node')
  }
  return Infinity
}

/** @returns when to look again, in milliseconds; infinite if an event comes first */
export async function leaveInstance(
  { cluster, ledger, node, log }: InstanceWorkOptions,
  { instance, device }: LeftInstance,
): Promise<number> {
  const { name } = instance.metadata
  // A container may have started since the plan. The change of the Instance makes another plan.
  if (device === 'renamed' && Object.keys(ledger.claimsIn(name)).length > 0) return Infinity
  const outcome = await cluster.leaveInstance(keyOf(instance), node)
  if (outcome === 'asked') return ASKED_MS
  log.info({ instance: name, outcome }, 'instance left')
  return Infinity
}
