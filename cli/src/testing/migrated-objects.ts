import type { ClusterSnapshot } from '../migrate/cluster-snapshot.js'

// Objects as an API server returns them, for tests of migrations.

const META = {
  namespace: 'plant',
  resourceVersion: '7',
  generation: 1,
  creationTimestamp: '2026-01-01T00:00:00Z',
}

export const EMPTY: ClusterSnapshot = {
  configurations: [],
  instances: [],
  reports: [],
  programs: [],
}

export function configurationObject(spec: object = {}, metadata: object = {}) {
  return {
    apiVersion: 'akri.sh/v0',
    kind: 'Configuration',
    metadata: { ...META, name: 'cam', uid: 'uid-cam', ...metadata },
    spec: { discoveryHandler: { name: 'none' }, capacity: 2, ...spec },
  }
}

export function instanceObject(spec: object = {}, metadata: object = {}) {
  const owner = { apiVersion: 'akri.sh/v0', kind: 'Configuration', name: 'cam', uid: 'uid-cam' }
  const ownerReferences = [{ ...owner, controller: true }]
  return {
    apiVersion: 'akri.sh/v0',
    kind: 'Instance',
    metadata: { ...META, name: 'cam-8120fe', uid: 'uid-i', ownerReferences, ...metadata },
    spec: {
      configurationName: 'cam',
      cdiName: 'akri.sh/cam=8120fe',
      capacity: 2,
      brokerProperties: { A: 'b' },
      shared: true,
      nodes: ['node-a'],
      deviceUsage: {},
      ...spec,
    },
  }
}

/** The managed fields of an Instance that agents of the existing system wrote. */
export function existingFields(...managers: readonly string[]) {
  return managers.map((manager) => ({
    manager,
    operation: 'Apply',
    fieldsV1: manager.endsWith('-fin')
      ? { 'f:metadata': { 'f:finalizers': {} } }
      : { 'f:spec': { 'f:nodes': {} } },
  }))
}
