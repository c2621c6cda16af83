import { type Configuration, type Instance, labelValue } from '@akrijs/api'
import { type NamedObject, ownedMetadata } from '../brokers/broker-template.js'
import { ANNOTATIONS, CONTROLLER, LABELS, serviceName } from '../labels.js'

/**
 * The Service of one device, or of all devices of a Configuration: the user's spec with a selector
 * for the brokers, also for those of Jobs and Deployments. Any of them may answer.
 */
export function brokerService(
  owner: Instance | Configuration,
  spec: Readonly<Record<string, unknown>>,
  hash: string,
): NamedObject {
  const label = owner.kind === 'Instance' ? LABELS.instance : LABELS.configuration
  const labels = { [LABELS.controller]: CONTROLLER, [label]: labelValue(owner.metadata.name) }
  const name = serviceName(`${owner.metadata.name}-svc`)
  const selector = typeof spec.selector === 'object' && spec.selector !== null ? spec.selector : {}
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: ownedMetadata(owner, name, labels, { [ANNOTATIONS.specHash]: hash }),
    spec: { ...spec, selector: { ...selector, ...labels } },
  }
}
