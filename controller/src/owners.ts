import { GROUP } from '@akrijs/api'
import { JOBS, type ObjectMeta, type OwnerReference } from '@akrijs/kube'
import type { KubernetesObject } from './kubernetes-objects.js'
import { CONTROLLER, LABELS } from './labels.js'

// Which object owns another object. Any user who may create Pods in a namespace can write any label
// and any owner reference there. So a reference means an owner in its own namespace only. Of Pods,
// Jobs, Services and Deployments, the caches have only those with the controller's label.

const GROUPS = { Configuration: GROUP, Instance: GROUP, Job: JOBS.group } as const

export type OwnerKind = keyof typeof GROUPS

/** Whether the reference of an object means this owner, and not only its name. */
export function isOwned(
  { metadata }: KubernetesObject,
  kind: OwnerKind,
  { metadata: owner }: KubernetesObject,
): boolean {
  const reference = controllerOf(metadata)
  return (
    reference?.kind === kind &&
    reference.uid === owner.uid &&
    reference.name === owner.name &&
    metadata.namespace === owner.namespace &&
    reference.apiVersion.replace(/\/[^/]*$/, '') === GROUPS[kind]
  )
}

/** Whether an object has the label that the watches of the controller select. */
export function hasLabel({ metadata }: KubernetesObject): boolean {
  return metadata.labels?.[LABELS.controller] === CONTROLLER
}

/** The reference of an object to the object that manages it. */
export function controllerOf(metadata: ObjectMeta<string>): OwnerReference | undefined {
  return metadata.ownerReferences?.find(({ controller }) => controller === true)
}
