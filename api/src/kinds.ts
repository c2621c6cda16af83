import type { ResourceKind } from '@akrijs/kube/objects'
import { GROUP, VERSION } from './names.js'

export const CONFIGURATIONS: ResourceKind = {
  group: GROUP,
  version: VERSION,
  plural: 'configurations',
}
export const INSTANCES: ResourceKind = { group: GROUP, version: VERSION, plural: 'instances' }
/** Cluster-scoped: the key of a report is that of its node. */
export const NODE_REPORTS: ResourceKind = {
  group: GROUP,
  version: VERSION,
  plural: 'nodereports',
}

/** Puts the custom resources of this version in the place of those that are there. */
export const APPLY_CUSTOM_RESOURCES =
  'kubectl apply --server-side --force-conflicts -f deploy/helm/akri/crds'

/** Such as `instances.akri.sh`. */
export function customResourceName({ plural, group }: ResourceKind): string {
  return `${plural}.${group}`
}
