import { GROUP } from '@akrijs/api'
import {
  JOBS,
  type ObjectKey,
  type ObjectMeta,
  type OwnerReference,
  objectKey,
  ownerId,
  referenceId,
} from '@akrijs/kube'
import type { KubernetesObject } from './kubernetes-objects.js'
import { CONTROLLER, LABELS } from './labels.js'

// Which object owns another object. Any user who may create Pods in a namespace can write any label
// and any owner reference there. So a reference means an owner in its own namespace only. Of Pods,
// Jobs, Services and Deployments, the caches have only those with the controller's label.

const GROUPS = { Configuration: GROUP, Instance: GROUP, Job: JOBS.group } as const

type OwnerKind = keyof typeof GROUPS

/** Equal for an owner and for the objects that it owns. */
export type OwnerId = string & { readonly __brand: 'OwnerId' }

export function ownerIdOf(kind: OwnerKind, { metadata }: KubernetesObject): OwnerId {
  return ownerId({ group: GROUPS[kind], kind, metadata }) as OwnerId
}

/** The owner that the reference of an object means. */
export function ownerIn({ metadata }: KubernetesObject): OwnerId | undefined {
  const reference = controllerOf(metadata)
  return reference && (referenceId(reference, metadata.namespace) as OwnerId)
}

/** Whether an object has the label that the watches of the controller select. */
export function hasLabel({ metadata }: KubernetesObject): boolean {
  return metadata.labels?.[LABELS.controller] === CONTROLLER
}

/** The key of the Configuration or Instance that the reference of an object names. */
export function ownerKey(
  { metadata }: KubernetesObject,
  kind: 'Configuration' | 'Instance',
): ObjectKey | undefined {
  const owner = controllerOf(metadata)
  return owner?.kind === kind ? objectKey(metadata.namespace, owner.name) : undefined
}

/** The reference of an object to the object that manages it. */
export function controllerOf(metadata: ObjectMeta<string>): OwnerReference | undefined {
  return metadata.ownerReferences?.find(({ controller }) => controller === true)
}
