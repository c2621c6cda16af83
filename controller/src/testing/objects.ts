import {
  type Configuration,
  type ConfigurationSpec,
  type Instance,
  instanceLabels,
} from '@akrijs/api'
import type { NodeName, OwnerReference } from '@akrijs/kube'
import { type BrokerHistory, historyText } from '../brokers/broker-history.js'
import type { ClusterNode, Job, Pod } from '../kubernetes-objects.js'
import { ANNOTATIONS } from '../labels.js'

// Objects for tests, as the API server would return them.

export const T0 = Date.parse('2026-01-01T00:00:00Z')

const at = (ms: number) => new Date(ms).toISOString()

export const AKRI = '/apis/akri.sh/v0/namespaces/plant'
export const CONFIGURATION = `${AKRI}/configurations/cam`
export const INSTANCE = `${AKRI}/instances/cam-8120fe`
export const PODS = '/api/v1/namespaces/plant/pods'
export const JOBS = '/apis/batch/v1/namespaces/plant/jobs'

export const POD_BROKER = { brokerSpec: { brokerPodSpec: { containers: [] } } }
export const JOB_BROKER = {
  brokerSpec: { brokerJobSpec: { template: { spec: { containers: [] } } } },
}

/** A reference to a Configuration or an Instance as the controller writes it. */
export function ownerReference(kind: string, name: string, uid = `uid-${name}`): OwnerReference {
  const apiVersion = 'akri.sh/v0'
  return { apiVersion, kind, name, uid, controller: true, blockOwnerDeletion: true }
}

export function testConfiguration(spec: Partial<ConfigurationSpec> = {}): Configuration {
  return {
    apiVersion: 'akri.sh/v0',
    kind: 'Configuration',
    metadata: {
      name: 'cam' as Configuration['metadata']['name'],
      namespace: 'plant',
      uid: 'uid-cam',
      generation: 3,
      resourceVersion: '1',
      creationTimestamp: at(T0),
    },
    spec: {
      discoveryHandler: { name: 'onvif', discoveryDetails: '', discoveryProperties: [] },
      capacity: 1,
      brokerProperties: {},
      ...spec,
    },
  }
}

export function testInstance(
  nodes: readonly string[],
  more: { capacity?: number; shared?: boolean; name?: string } = {},
): Instance {
  const { capacity = 1, shared = true, name = 'cam-8120fe' } = more
  return {
    apiVersion: 'akri.sh/v0',
    kind: 'Instance',
    metadata: {
      name: name as Instance['metadata']['name'],
      namespace: 'plant',
      uid: `uid-${name}`,
      generation: 1,
      resourceVersion: '1',
      creationTimestamp: at(T0),
      labels: instanceLabels({ shared, nodes: nodes as NodeName[] }),
      ownerReferences: [ownerReference('Configuration', 'cam')],
    },
    spec: {
      configurationName: 'cam' as Instance['spec']['configurationName'],
      cdiName: 'akri.sh/cam=8120fe',
      capacity,
      brokerProperties: {},
      shared,
      nodes: nodes as NodeName[],
      deviceUsage: {},
    },
  }
}

/** The Instance with what its brokers that have gone leave. */
export function withHistory(instance: Instance, history: Partial<BrokerHistory>): Instance {
  const text = historyText({ left: {}, full: [], ...history })
  const { [ANNOTATIONS.brokers]: _before, ...others } = instance.metadata.annotations ?? {}
  const annotations = { ...others, ...(text !== null && { [ANNOTATIONS.brokers]: text }) }
  return { ...instance, metadata: { ...instance.metadata, annotations } }
}

export interface TestPod extends Partial<Omit<Pod, 'metadata' | 'node' | 'targetNode'>> {
  readonly name?: string
  readonly hash?: string | undefined
  readonly restarts?: number
  readonly createdAt?: number
  readonly leaves?: boolean
  readonly scheduled?: boolean
}

/** A broker Pod of a node. @default a Pod that runs and is ready */
export function testPod(targetNode: string, more: TestPod = {}): Pod {
  const {
    name = `${targetNode}-pod`,
    hash = 'now',
    restarts = 0,
    createdAt = T0,
    leaves = false,
    scheduled = true,
    ...rest
  } = more
  const annotations = {
    ...('hash' in more && more.hash === undefined ? {} : { [ANNOTATIONS.specHash]: hash }),
    [ANNOTATIONS.targetNode]: targetNode,
    [ANNOTATIONS.restarts]: String(restarts),
  }
  return {
    metadata: {
      name,
      namespace: 'plant',
      uid: `uid-${name}-${createdAt}`,
      generation: 1,
      resourceVersion: '1',
      creationTimestamp: at(createdAt),
      annotations,
      ownerReferences: [ownerReference('Instance', 'cam-8120fe')],
      ...(leaves ? { deletionTimestamp: at(createdAt) } : {}),
    },
    node: (scheduled ? targetNode : '') as NodeName | '',
    targetNode: targetNode as NodeName,
    phase: 'Running',
    reason: '',
    ready: more.phase === undefined || more.phase === 'Running',
    seenAt: createdAt,
    deletedAt: leaves ? createdAt : undefined,
    readySince: createdAt - 60_000,
    startedAt: scheduled ? createdAt : undefined,
    endedAt: createdAt,
    ranMs: 0,
    hasRun: true,
    problem: undefined,
    containerRestarts: 0,
    ...rest,
  }
}

export function testJob(
  name: string,
  more: Partial<Omit<Job, 'metadata'>> & { hash?: string | undefined; leaves?: boolean } = {},
): Job {
  const { hash = 'now', leaves = false, ...rest } = more
  return {
    metadata: {
      name,
      namespace: 'plant',
      uid: `uid-${name}`,
      generation: 1,
      resourceVersion: '1',
      creationTimestamp: at(T0),
      annotations:
        'hash' in more && more.hash === undefined ? {} : { [ANNOTATIONS.specHash]: hash },
      ...(leaves ? { deletionTimestamp: at(T0) } : {}),
    },
    outcome: undefined,
    deletedAt: leaves ? T0 : undefined,
    endedAt: undefined,
    failure: '',
    failedPods: 0,
    lacksPods: false,
    ...rest,
  }
}

/** A node that is ready and schedulable. */
export function testNode(name: string): ClusterNode {
  const metadata = {
    name,
    namespace: '',
    uid: `uid-${name}`,
    generation: 1,
    resourceVersion: '1',
    creationTimestamp: at(T0),
  }
  return { metadata, ready: true, readySince: T0, schedulable: true, taints: [] }
}
