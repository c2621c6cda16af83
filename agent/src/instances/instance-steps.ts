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

const GONE = { done: { outcome: 'gone' } } as const

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
    return this.changeInstance<'joined' | 'already-joined' | 'gone'>(key, (instance) => {
      // A node that joins an Instance under deletion would lose it.
      if (instance === undefined || instance.metadata.deletionTimestamp !== undefined)
        return { done: 'gone' }
      if (instance.spec.nodes.includes(node)) return { done: 'already-joined' }
      const readable = readableClaims(instance, claims, this.compatibility)
      const claiming = freeAmong(instance, readable).flatMap(([slot, usage]) =>
        claimPatch(instance, slot, usage),
      )
      return { patch: [...joinPatch(node), ...claiming], result: 'joined' }
    })
  }

  leaveInstance(key: ObjectKey, node: NodeName): ReturnType<Cluster['leaveInstance']> {
    return this.changeInstance<'left' | 'deleted' | 'gone'>(key, (instance) => {
      if (instance === undefined || !instance.spec.nodes.includes(node)) return { done: 'gone' }
      if (instance.spec.nodes.length === 1) return { remove: instance, result: 'deleted' }
      return { patch: leavePatch(instance, node, this.compatibility), result: 'left' }
    })
  }

  updateInstance(key: ObjectKey, change: InstanceChange) {
    const { compatibility } = this
    return this.changeInstance<'updated' | 'deferred' | 'gone'>(key, (instance) => {
      if (instance === undefined) return { done: 'gone' }
      const { brokerProperties } = instance.spec
      const patch = updatePatch(instance, { brokerProperties, ...change }, compatibility)
      const capacity = writableCapacity(instance, change.capacity, compatibility)
      const result = capacity === change.capacity ? 'updated' : 'deferred'
      return patch.length === 0 ? { done: result } : { patch, result }
    })
  }

  claimSlot(key: ObjectKey, slot: SlotName, usage: string, device?: string) {
    return this.#claim(key, slot, usage, false, device)
  }

  restoreSlot(key: ObjectKey, slot: SlotName, usage: string) {
    return this.#claim(key, slot, usage, true)
  }

  /**
   * @param inUse whether a container has the slot already, so that only the other system needs it
   * to be within the capacity
   * @param device two devices can have one short digest: another node may have created the Instance
   * of the name for the other device
   */
  #claim(key: ObjectKey, slot: SlotName, usage: string, inUse: boolean, device?: string) {
    return this.changeInstance<SlotClaim>(key, (instance) => {
      const index = instance && slotIndex(instance.metadata.name, slot)
      if (instance === undefined || index === undefined) return GONE
      const deviceId = deviceIdOf(instance)
      if (device !== undefined && deviceId !== undefined && deviceId !== printable(device))
        return GONE
      const { capacity, deviceUsage } = instance.spec
      const by = deviceUsage[slot] ?? ''
      if (by !== '') return { done: { outcome: 'taken', by } }
      if ((!inUse || this.compatibility !== 'off') && index >= capacity) return GONE
      // After the capacity was lowered, claims beyond it count until they are released.
      if (!inUse && heldSlots(deviceUsage) >= capacity) return GONE
      return { patch: claimPatch(instance, slot, usage), result: { outcome: 'claimed' } }
    })
  }

  releaseSlot(key: ObjectKey, slot: SlotName, usage: string) {
    return this.changeInstance<'released' | 'changed' | 'gone'>(key, (instance) => {
      if (instance === undefined) return { done: 'gone' }
      if (instance.spec.deviceUsage[slot] !== usage || usage === '') return { done: 'changed' }
      return { patch: releasePatch(instance, slot, usage, this.compatibility), result: 'released' }
    })
  }

  reportBrokerInfo(key: ObjectKey, node: NodeName, reports: BrokerReports) {
    return this.changeInstance<'reported' | 'gone'>(key, (instance) => {
      if (instance === undefined) return { done: 'gone' }
      const { patch } = planBrokerInfo(instance, node, reports)
      if (patch.length === 0) return { done: 'reported' }
      return { patch, subresource: 'status', result: 'reported' }
    })
  }
}
