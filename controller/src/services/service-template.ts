import type { Configuration, Instance } from '@akrijs/api'
import {
  configurationLabels,
  instanceLabels,
  type NamedObject,
  ownerReference,
} from '../brokers/broker-template.js'
import { ANNOTATIONS, CONTROLLER, LABELS, labelValue, serviceName } from '../labels.js'

// The Services of an Instance and of a Configuration: the user's spec, and a selector that finds the brokers, also those of
// Jobs and Deployments.

type Fields = Readonly<Record<string, unknown>>

/** The Service by which one device is reached, whichever of its brokers answers. */
export function instanceService(instance: Instance, spec: Fields, hash: string): NamedObject {
  const { [LABELS.instance]: own } = instanceLabels(instance)
  return service(instance, 'Instance', { [LABELS.instance]: own ?? '' }, spec, hash)
}

/** The Service by which all devices of a Configuration are reached. */
export function configurationService(
  configuration: Configuration,
  spec: Fields,
  hash: string,
): NamedObject {
  const { [LABELS.configuration]: own } = configurationLabels(configuration)
  return service(configuration, 'Configuration', { [LABELS.configuration]: own ?? '' }, spec, hash)
}

function service(
  owner: Instance | Configuration,
  kind: 'Instance' | 'Configuration',
  own: Readonly<Record<string, string>>,
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
      labels: { [LABELS.app]: labelValue(name), [LABELS.controller]: CONTROLLER, ...own },
      annotations: { [ANNOTATIONS.specHash]: hash },
      ownerReferences: [ownerReference(kind, owner)],
    },
    spec: { ...spec, selector: { ...selector, [LABELS.controller]: CONTROLLER, ...own } },
  }
}
