import {
  API_VERSION,
  type Configuration,
  GROUP,
  type Instance,
  labelValue,
  PLACEHOLDER,
} from '@akrijs/api'
import type { NodeName, OwnerReference } from '@akrijs/kube'
import { isRecord } from '@akrijs/runtime'
import { recordOf } from '../kubernetes-objects.js'
import { ANNOTATIONS, CONTROLLER, jobObjectName, LABELS, objectName } from '../labels.js'
import type { NamedObject } from '../managed-fields.js'

// The Pods, Jobs and Deployments of brokers. They have the user's spec; the controller changes only
// the placeholder, the labels that select brokers, and the node of a Pod.

type Fields = Readonly<Record<string, unknown>>

interface BrokerOptions {
  readonly instance: Instance
  readonly spec: Fields
  readonly hash: string
  readonly restarts: number
}

interface PodOptions extends BrokerOptions {
  readonly node: NodeName
}

export function podName({ metadata, spec }: Instance, node: NodeName): string {
  return objectName(spec.shared ? `${node}-${metadata.name}-pod` : `${metadata.name}-pod`)
}

/** A broker Pod for one node of an Instance. */
export function brokerPod(
  options: PodOptions,
  name = podName(options.instance, options.node),
): object {
  const { instance, node, spec } = options
  const labels = { ...instanceLabels(instance), [LABELS.targetNode]: labelValue(node) }
  const annotations = { ...annotationsOf(options), [ANNOTATIONS.targetNode]: node }
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: ownedMetadata(instance, name, labels, annotations),
    spec: { ...withResource(spec, instance), affinity: pinnedTo(node, spec.affinity) },
  }
}

/** With the generation: the name of the previous Job is taken until that Job has gone. */
export function jobName(
  { metadata }: Instance,
  { metadata: { generation } }: Configuration,
): string {
  return jobObjectName(`${metadata.name}-${generation}-job`)
}

/** The broker Job of an Instance; the scheduler chooses the node. */
export function brokerJob(options: BrokerOptions, name: string): object {
  const { instance, spec } = options
  const labels = instanceLabels(instance)
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: ownedMetadata(instance, name, labels, annotationsOf(options)),
    spec: { ...spec, template: podTemplate(spec.template, labels, instance) },
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
  const name = deploymentName(configuration)
  const labels = {
    [LABELS.app]: labelValue(name),
    [LABELS.controller]: CONTROLLER,
    [LABELS.configuration]: labelValue(configuration.metadata.name),
  }
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: ownedMetadata(configuration, name, labels, { [ANNOTATIONS.specHash]: hash }),
    spec: {
      ...spec,
      // With this selector it cannot adopt Pods of another Deployment.
      selector: { matchLabels: labels },
      template: podTemplate(spec.template, labels, configuration),
    },
  }
}

/** The metadata of an object that an Instance or a Configuration owns. */
export function ownedMetadata(
  { kind, metadata }: Instance | Configuration,
  name: string,
  labels: Readonly<Record<string, string>>,
  annotations: Readonly<Record<string, string>>,
): NamedObject['metadata'] {
  const { namespace, uid } = metadata
  const owner: OwnerReference = {
    apiVersion: API_VERSION,
    kind,
    name: metadata.name,
    uid,
    controller: true,
    blockOwnerDeletion: true,
  }
  return {
    name,
    namespace,
    labels: { [LABELS.app]: labelValue(name), ...labels },
    annotations,
    ownerReferences: [owner],
  }
}

function instanceLabels({ metadata, spec }: Instance): Record<string, string> {
  return {
    [LABELS.controller]: CONTROLLER,
    [LABELS.configuration]: labelValue(spec.configurationName),
    [LABELS.instance]: labelValue(metadata.name),
  }
}

function annotationsOf({ hash, restarts }: BrokerOptions): Record<string, string> {
  return {
    [ANNOTATIONS.specHash]: hash,
    ...(restarts > 0 ? { [ANNOTATIONS.restarts]: String(restarts) } : {}),
  }
}

/** The user's template of a Pod with these labels and with the resource of the owner. */
function podTemplate(
  value: unknown,
  labels: Readonly<Record<string, string>>,
  owner: Instance | Configuration,
): Fields {
  const template = recordOf(value)
  const metadata = recordOf(template.metadata)
  return {
    ...template,
    metadata: { ...metadata, labels: { ...recordOf(metadata.labels), ...labels } },
    spec: withResource(recordOf(template.spec), owner),
  }
}

/** The PodSpec with the resource of the owner instead of the placeholder. */
function withResource(spec: Fields, { metadata }: Instance | Configuration): Fields {
  const resource = `${GROUP}/${metadata.name}`
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
  const nodeAffinity = recordOf(recordOf(affinity).nodeAffinity)
  const required = recordOf(nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution)
  const { nodeSelectorTerms } = required
  const userTerms = Array.isArray(nodeSelectorTerms) ? nodeSelectorTerms : []
  const pin = { key: 'metadata.name', operator: 'In', values: [node] }
  const terms = (userTerms.length > 0 ? userTerms : [{}]).map((term) => {
    const { matchFields } = recordOf(term)
    return {
      ...recordOf(term),
      matchFields: [...(Array.isArray(matchFields) ? matchFields : []), pin],
    }
  })
  return {
    ...recordOf(affinity),
    nodeAffinity: {
      ...nodeAffinity,
      requiredDuringSchedulingIgnoredDuringExecution: { ...required, nodeSelectorTerms: terms },
    },
  }
}
