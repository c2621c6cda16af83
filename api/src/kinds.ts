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
