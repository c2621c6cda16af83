import type { ObjectKey } from '@akrijs/kube'
import { isDeleted, type Pod } from '../kubernetes-objects.js'
import { specHash, specHashOf, TEMPLATE_HASH } from '../labels.js'
import { isAsApplied } from '../managed-fields.js'
import { controllerOf } from '../owners.js'
import type { Term } from '../term.js'
import { isRefused } from './broker-state.js'
import { brokerDeployment, deploymentName } from './broker-template.js'

/** Reconciles the Deployment of a Configuration whose brokers share all of its devices. */
export async function reconcileDeployment(
  key: ObjectKey,
  { state, log }: Term,
  signal: AbortSignal,
): Promise<void> {
  const { deployments } = state
  const configuration = state.configuration(key)
  // The garbage collector deletes what a deleted Configuration owned.
  if (configuration === undefined || isDeleted(configuration)) return
  const { brokerSpec } = state.workloadSpec(configuration)
  const name = deploymentName(configuration)
  const current = deployments.named(name, configuration)
  if (brokerSpec === undefined || !('brokerDeploymentSpec' in brokerSpec)) {
    if (current !== undefined)
      await deployments.remove(current, { propagationPolicy: 'Background', signal })
    return
  }
  // The ReplicaSet replaces Pods that the kubelet refused, and never deletes them.
  const refused = state.pods
    .labelled('Configuration', key)
    .filter((pod) => isOf(pod, name) && isRefused(pod) && !pod.hasRun && !isDeleted(pod))
  for (const pod of current === undefined ? [] : refused) {
    await state.pods.remove(pod, { gracePeriodSeconds: 0, signal })
    log.info({ pod: pod.metadata.name }, 'refused broker removed')
  }
  const hash = specHash(brokerSpec.brokerDeploymentSpec)
  const deployment = brokerDeployment(configuration, brokerSpec.brokerDeploymentSpec, hash)
  if (current && specHashOf(current) === hash && isAsApplied(current, deployment)) return
  await deployments.apply(deployment, configuration, signal)
  log.info({ configuration: configuration.metadata.name }, 'deployment applied')
}

/**
 * Whether a ReplicaSet of the Deployment made the Pod: its name ends with the template's digest.
 */
export function isOf({ metadata }: Pod, deployment: string): boolean {
  const owner = controllerOf(metadata)
  return (
    owner?.kind === 'ReplicaSet' &&
    owner.apiVersion.startsWith('apps/') &&
    owner.name === `${deployment}-${metadata.labels?.[TEMPLATE_HASH]}`
  )
}
