import {
  API_VERSION,
  type Compatibility,
  claimPatch,
  claimsOf,
  freeAmong,
  heldSlots,
  type Instance,
  instanceLabels,
  joinPatch,
  leavePatch,
  omitsFreeSlots,
  readableClaims,
  releasePatch,
  resizedUsage,
  type SlotName,
  slotIndex,
  updatePatch,
  writableCapacity,
} from '@akrijs/api'
import type { JsonPatch, NodeName, ObjectKey } from '@akrijs/kube/objects'
import { printable } from '@akrijs/runtime'
import { planBrokerInfo } from '../broker-info/broker-info-plan.js'
import type {
  BrokerReports,
  Cluster,
  DeviceUsage,
  InstanceChange,
  InstanceDraft,
  SlotClaim,
} from '../cluster/cluster.js'
import { deviceIdOf } from './existing-instances.js'

// How an Instance changes, the same in every cluster. Pure.

/** The end of a change, or its next write with the result of a success. */
export type InstanceStep<T> =
  | { readonly done: T }
  | { readonly patch: JsonPatch; readonly subresource?: 'status'; readonly result: T }
  | { readonly remove: Instance; readonly result: T }

/** The object of a draft, without the metadata that the cluster adds. */
export function newInstance(
  { name, namespace, annotations, owner, spec }: InstanceDraft,
  compatibility: Compatibility = 'off',
) {
  const { name: ownerName, uid } = owner.metadata
  const { capacity } = spec
  const draft = { metadata: { name }, spec: { capacity, deviceUsage: {} } }
  const claims = readableClaims(draft, spec.deviceUsage, compatibility)
  const deviceUsage = omitsFreeSlots(draft, compatibility)
    ? claimsOf(claims)
    : resizedUsage(name, capacity, claims)
  return {
    apiVersion: API_VERSION,
    kind: 'Instance',
    metadata: {
      name,
      namespace,
      labels: instanceLabels(spec),
      annotations,
      ownerReferences: [
        { apiVersion: API_VERSION, kind: 'Configuration', name: ownerName, uid, controller: true },
      ],
    },
    spec: { ...spec, deviceUsage },
  } as const
}

export function joinStep(
  instance: Instance | undefined,
  node: NodeName,
  claims: DeviceUsage = {},
  compatibility: Compatibility = 'off',
): InstanceStep<'joined' | 'already-joined' | 'gone'> {
  // A node that joins an Instance under deletion would lose it.
  if (instance === undefined || instance.metadata.deletionTimestamp !== undefined)
    return { done: 'gone' }
  if (instance.spec.nodes.includes(node)) return { done: 'already-joined' }
  const readable = readableClaims(instance, claims, compatibility)
  const claiming = freeAmong(instance, readable).flatMap(([slot, usage]) =>
    claimPatch(instance, slot, usage),
  )
  return { patch: [...joinPatch(node), ...claiming], result: 'joined' }
}

export function leaveStep(
  instance: Instance | undefined,
  node: NodeName,
  compatibility: Compatibility = 'off',
): InstanceStep<'left' | 'deleted' | 'gone'> {
  if (instance === undefined || !instance.spec.nodes.includes(node)) return { done: 'gone' }
  if (instance.spec.nodes.length === 1) return { remove: instance, result: 'deleted' }
  return { patch: leavePatch(instance, node, compatibility), result: 'left' }
}

function updateStep(
  instance: Instance | undefined,
  change: InstanceChange,
  compatibility: Compatibility,
): InstanceStep<'updated' | 'deferred' | 'gone'> {
  if (instance === undefined) return { done: 'gone' }
  const { brokerProperties } = instance.spec
  const patch = updatePatch(instance, { brokerProperties, ...change }, compatibility)
  const capacity = writableCapacity(instance, change.capacity, compatibility)
  const result = capacity === change.capacity ? 'updated' : 'deferred'
  return patch.length === 0 ? { done: result } : { patch, result }
}

interface ClaimOptions {
  readonly inUse: boolean
  readonly device?: string | undefined
  readonly compatibility: Compatibility
}

/**
 * @param inUse whether a container has the slot already, so that only the other system needs it
 *   to be within the capacity
 * @param device two devices can have one short digest: another node may have created the Instance
 *   of the name for the other device
 */
function claimStep(
  instance: Instance | undefined,
  slot: SlotName,
  usage: string,
  { inUse, device, compatibility }: ClaimOptions,
): InstanceStep<SlotClaim> {
  const index = instance && slotIndex(instance.metadata.name, slot)
  if (instance === undefined || index === undefined) return { done: { outcome: 'gone' } }
  const deviceId = deviceIdOf(instance)
  if (device !== undefined && deviceId !== undefined && deviceId !== printable(device))
    return { done: { outcome: 'gone' } }
  const { capacity, deviceUsage } = instance.spec
  const holder = deviceUsage[slot] ?? ''
  if (holder !== '') return { done: { outcome: 'taken', by: holder } }
  if ((!inUse || compatibility !== 'off') && index >= capacity) return { done: { outcome: 'gone' } }
  // After the capacity was lowered, claims beyond it count until they are released.
  if (!inUse && heldSlots(deviceUsage) >= capacity) return { done: { outcome: 'gone' } }
  return { patch: claimPatch(instance, slot, usage), result: { outcome: 'claimed' } }
}

function releaseStep(
  instance: Instance | undefined,
  slot: SlotName,
  usage: string,
  compatibility: Compatibility,
): InstanceStep<'released' | 'changed' | 'gone'> {
  if (instance === undefined) return { done: 'gone' }
  if (instance.spec.deviceUsage[slot] !== usage || usage === '') return { done: 'changed' }
  return { patch: releasePatch(instance, slot, usage, compatibility), result: 'released' }
}

function brokerInfoStep(
  instance: Instance | undefined,
  node: NodeName,
  reports: BrokerReports,
): InstanceStep<'reported' | 'gone'> {
  if (instance === undefined) return { done: 'gone' }
  const { patch } = planBrokerInfo(instance, node, reports)
  if (patch.length === 0) return { done: 'reported' }
  return { patch, subresource: 'status', result: 'reported' }
}

/** How each cluster changes Instances: by one step, or by several after lost races. */
export abstract class InstanceWrites {
  protected readonly compatibility: Compatibility

  constructor(compatibility: Compatibility = 'off') {
    this.compatibility = compatibility
  }

  /** Carries out the step that follows from the present Instance. */
  protected abstract changeInstance<T>(
    key: ObjectKey,
    decide: (instance: Instance | undefined) => InstanceStep<T>,
  ): Promise<T>

  joinInstance(
    key: ObjectKey,
    node: NodeName,
    claims: DeviceUsage = {},
  ): ReturnType<Cluster['joinInstance']> {
    return this.changeInstance(key, (instance) =>
      joinStep(instance, node, claims, this.compatibility),
    )
  }

  leaveInstance(key: ObjectKey, node: NodeName): ReturnType<Cluster['leaveInstance']> {
    return this.changeInstance(key, (instance) => leaveStep(instance, node, this.compatibility))
  }

  updateInstance(key: ObjectKey, fields: InstanceChange) {
    return this.changeInstance(key, (instance) => updateStep(instance, fields, this.compatibility))
  }

  claimSlot(key: ObjectKey, slot: SlotName, usage: string, device?: string) {
    const options = { inUse: false, device, compatibility: this.compatibility }
    return this.changeInstance(key, (instance) => claimStep(instance, slot, usage, options))
  }

  restoreSlot(key: ObjectKey, slot: SlotName, usage: string) {
    const options = { inUse: true, compatibility: this.compatibility }
    return this.changeInstance(key, (instance) => claimStep(instance, slot, usage, options))
  }

  releaseSlot(key: ObjectKey, slot: SlotName, usage: string) {
    return this.changeInstance(key, (instance) =>
      releaseStep(instance, slot, usage, this.compatibility),
    )
  }

  reportBrokerInfo(key: ObjectKey, node: NodeName, reports: BrokerReports) {
    return this.changeInstance(key, (instance) => brokerInfoStep(instance, node, reports))
  }
}
