import type { Configuration, Instance } from '@akrijs/api'
import { type NamedObject, ownerReference } from '../brokers/broker-template.js'
import { ANNOTATIONS, CONTROLLER, LABELS, labelValue, serviceName } from '../labels.js'

// The Services of an Instance and of a Configuration: the user's spec with a selector for the
// brokers, also for those of Jobs and Deployments.

type Fields = Readonly<Record<string, unknown>>

/** The Service of one device: any of its brokers may answer. */
export function instanceService(instance: Instance, spec: Fields, hash: string): NamedObject {
  const labels = { [LABELS.instance]: labelValue(instance.metadata.name) }
  return service(instance, 'Instance', labels, spec, hash)
}

/** The Service of all devices of a Configuration. */
export function configurationService(
  configuration: Configuration,
  spec: Fields,
  hash: string,
): NamedObject {
  const labels = { [LABELS.configuration]: labelValue(configuration.metadata.name) }
  return service(configuration, 'Configuration', labels, spec, hash)
}

function service(
  owner: Instance | Configuration,
  kind: 'Instance' | 'Configuration',
  labels: Readonly<Record<string, string>>,
  spec: Fields,
  hash: string,
): NamedObject {
  const name = serviceName(`${owner.metadata.name}-svc`)
  const selector = typeof spec.selector === 'object' && spec.selector !== null ? spec.selector : {}
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: {
      name,
      namespace: owner.metadata.namespace,
      labels: { [LABELS.app]: labelValue(name), [LABELS.controller]: CONTROLLER, ...labels },
      annotations: { [ANNOTATIONS.specHash]: hash },
      ownerReferences: [ownerReference(kind, owner)],
    },
    spec: { ...spec, selector: { ...selector, [LABELS.controller]: CONTROLLER, ...labels } },
  }
}
