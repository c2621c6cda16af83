import { API_VERSION, type Configuration, GROUP, type Instance, PLACEHOLDER } from '@akrijs/api'
import type { NodeName, OwnerReference } from '@akrijs/kube'
import { isRecord } from '@akrijs/runtime'
import {
  ANNOTATIONS,
  CONTROLLER,
  jobObjectName,
  LABELS,
  labelValue,
  objectName,
} from '../labels.js'

// The Pods, Jobs and Deployments of brokers. They have the user's spec; the controller changes only
// the placeholder, the labels that select brokers, and the node of a Pod.

type Fields = Readonly<Record<string, unknown>>

export interface NamedObject {
  readonly metadata: {
    readonly name: string
    readonly namespace: string
    readonly [field: string]: unknown
  }
  readonly [field: string]: unknown
}

interface PodOptions {
  readonly instance: Instance
  readonly node: NodeName
  readonly spec: Fields
  readonly hash: string
  readonly restarts: number
}

export function podName({ metadata, spec }: Instance, node: NodeName): string {
  return objectName(spec.shared ? `${node}-${metadata.name}-pod` : `${metadata.name}-pod`)
}

/** A broker Pod for one node of an Instance. */
export function brokerPod(
  { instance, node, spec, hash, restarts }: PodOptions,
  name = podName(instance, node),
): object {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name,
      namespace: instance.metadata.namespace,
      labels: {
        [LABELS.app]: labelValue(name),
        ...instanceLabels(instance),
        [LABELS.targetNode]: labelValue(node),
      },
      annotations: {
        [ANNOTATIONS.specHash]: hash,
        [ANNOTATIONS.targetNode]: node,
        ...(restarts > 0 ? { [ANNOTATIONS.restarts]: String(restarts) } : {}),
      },
      ownerReferences: [ownerReference('Instance', instance)],
    },
    spec: {
      ...withResource(spec, `${GROUP}/${instance.metadata.name}`),
      affinity: pinnedTo(node, spec.affinity),
    },
  }
}

/** With the generation: the name of the previous Job is taken until that Job has gone. */
export function jobName(
  { metadata }: Instance,
  { metadata: { generation } }: Configuration,
): string {
  return jobObjectName(`${metadata.name}-${generation}-job`)
}

interface JobOptions {
  readonly instance: Instance
  readonly spec: Fields
  readonly hash: string
  readonly restarts: number
}

/** The broker Job of an Instance; the scheduler chooses the node. */
export function brokerJob({ instance, spec, hash, restarts }: JobOptions, name: string): object {
  const template = record(spec.template)
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: {
      name,
      namespace: instance.metadata.namespace,
      labels: { [LABELS.app]: labelValue(name), ...instanceLabels(instance) },
      annotations: {
        [ANNOTATIONS.specHash]: hash,
        ...(restarts > 0 ? { [ANNOTATIONS.restarts]: String(restarts) } : {}),
      },
      ownerReferences: [ownerReference('Instance', instance)],
    },
    spec: {
      ...spec,
      template: {
        ...template,
        metadata: withLabels(template.metadata, instanceLabels(instance)),
        spec: withResource(record(template.spec), `${GROUP}/${instance.metadata.name}`),
      },
    },
  }
}

export function deploymentName({ metadata }: Configuration): string {
  return objectName(`${metadata.name}-deployment`)
}

/** The Deployment of a Configuration: its Pods ask for any of the devices. */
export function brokerDeployment(
  configuration: Configuration,
  spec: Fields,
  hash: string,
): NamedObject {
  const { name, namespace } = configuration.metadata
  const template = record(spec.template)
  const labels = configurationLabels(configuration)
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: {
      name: deploymentName(configuration),
      namespace,
      labels: { [LABELS.app]: labelValue(deploymentName(configuration)), ...labels },
      annotations: { [ANNOTATIONS.specHash]: hash },
      ownerReferences: [ownerReference('Configuration', configuration)],
    },
    spec: {
      ...spec,
      // With this selector it cannot adopt Pods of another Deployment.
      selector: {
        matchLabels: { ...labels, [LABELS.app]: labelValue(deploymentName(configuration)) },
      },
      template: {
        ...template,
        metadata: withLabels(template.metadata, {
          ...labels,
          [LABELS.app]: labelValue(deploymentName(configuration)),
        }),
        spec: withResource(record(template.spec), `${GROUP}/${name}`),
      },
    },
  }
}

function instanceLabels({ metadata, spec }: Instance): Record<string, string> {
  return {
    [LABELS.controller]: CONTROLLER,
    [LABELS.configuration]: labelValue(spec.configurationName),
    [LABELS.instance]: labelValue(metadata.name),
  }
}

function configurationLabels({ metadata }: Configuration): Record<string, string> {
  return { [LABELS.controller]: CONTROLLER, [LABELS.configuration]: labelValue(metadata.name) }
}

export function ownerReference(
  kind: 'Instance' | 'Configuration',
  { metadata }: Instance | Configuration,
): OwnerReference {
  return {
    apiVersion: API_VERSION,
    kind,
    name: metadata.name,
    uid: metadata.uid,
    controller: true,
    blockOwnerDeletion: true,
  }
}

/** The PodSpec with the resource instead of the placeholder. */
function withResource(spec: Fields, resource: string): Fields {
  const containers = (list: unknown) =>
    Array.isArray(list) ? list.map((container) => withRequests(container, resource)) : list
  return {
    ...withRequests(spec, resource),
    ...('containers' in spec ? { containers: containers(spec.containers) } : {}),
    ...('initContainers' in spec ? { initContainers: containers(spec.initContainers) } : {}),
  }
}

/** A container, or a Pod with resources at Pod level. */
function withRequests<T>(value: T, resource: string): T {
  if (!isRecord(value) || !isRecord(value.resources)) return value
  const renamed = (quantities: unknown) =>
    isRecord(quantities)
      ? Object.fromEntries(
          Object.entries(quantities).map(([name, amount]) => [
            name === PLACEHOLDER ? resource : name,
            amount,
          ]),
        )
      : quantities
  const { resources } = value
  return {
    ...value,
    resources: {
      ...resources,
      ...('limits' in resources ? { limits: renamed(resources.limits) } : {}),
      ...('requests' in resources ? { requests: renamed(resources.requests) } : {}),
    },
  }
}

/** The user's affinity and the node. Terms are alternatives: each of them gets the node. */
function pinnedTo(node: NodeName, affinity: unknown): Fields {
  const nodeAffinity = record(record(affinity).nodeAffinity)
  const required = record(nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution)
  const { nodeSelectorTerms } = required
  const userTerms = Array.isArray(nodeSelectorTerms) ? nodeSelectorTerms : []
  const pin = { key: 'metadata.name', operator: 'In', values: [node] }
  const terms = (userTerms.length > 0 ? userTerms : [{}]).map((term) => {
    const { matchFields } = record(term)
    return {
      ...record(term),
      matchFields: [...(Array.isArray(matchFields) ? matchFields : []), pin],
    }
  })
  return {
    ...record(affinity),
    nodeAffinity: {
      ...nodeAffinity,
      requiredDuringSchedulingIgnoredDuringExecution: { ...required, nodeSelectorTerms: terms },
    },
  }
}

function withLabels(metadata: unknown, labels: Readonly<Record<string, string>>): Fields {
  return { ...record(metadata), labels: { ...record(record(metadata).labels), ...labels } }
}

function record(value: unknown): Fields {
  return isRecord(value) ? value : {}
}
