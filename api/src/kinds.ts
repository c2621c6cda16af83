import type { ResourceKind } from '@akrijs/kube/objects'
import { GROUP, VERSION } from './names.js'

export const CONFIGURATIONS: ResourceKind = {
  group: GROUP,
  version: VERSION,
  plural: 'configurations',
}
export const INSTANCES: ResourceKind = { group: GROUP, version: VERSION, plural: 'instances' }
