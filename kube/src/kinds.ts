import type { ResourceKind } from './objects.js'

// The kinds of Kubernetes itself that akri.js reads or writes.

export const CONFIG_MAPS: ResourceKind = { group: '', version: 'v1', plural: 'configmaps' }
export const DEPLOYMENTS: ResourceKind = { group: 'apps', version: 'v1', plural: 'deployments' }
export const EVENTS: ResourceKind = { group: '', version: 'v1', plural: 'events' }
export const JOBS: ResourceKind = { group: 'batch', version: 'v1', plural: 'jobs' }
export const LEASES: ResourceKind = {
  group: 'coordination.k8s.io',
  version: 'v1',
  plural: 'leases',
}
export const NODES: ResourceKind = { group: '', version: 'v1', plural: 'nodes' }
export const PODS: ResourceKind = { group: '', version: 'v1', plural: 'pods' }
export const SECRETS: ResourceKind = { group: '', version: 'v1', plural: 'secrets' }
export const SERVICES: ResourceKind = { group: '', version: 'v1', plural: 'services' }
