import { type ObjectKey, objectKey, type ReconcileResult } from '@akrijs/kube'
import type { Logger } from '@akrijs/runtime'
import type { ClusterState } from '../cluster-state.js'
import type { Pod } from '../kubernetes-objects.js'
import { belongsTo, controllerOf, specHash, specHashOf } from '../labels.js'
import { isAsApplied } from '../managed-fields.js'
import { brokerDeployment, deploymentName } from './broker-template.js'
import { isRefused } from './pod-state.js'

interface ConfigurationDeploymentOptions {
  readonly state: ClusterState
  readonly log: Logger
}

/** The Deployment of a Configuration whose brokers share all of its devices. */
export class ConfigurationDeployment {
  readonly #options: ConfigurationDeploymentOptions

  constructor(options: ConfigurationDeploymentOptions) {
    this.#options = options
  }

  async reconcile(key: ObjectKey, signal: AbortSignal): Promise<ReconcileResult> {
    const { state, log } = this.#options
    const { deployments } = state
    const configuration = state.configurations.cache.get(key)
    // The garbage collector deletes what a deleted Configuration owned.
    if (configuration === undefined || configuration.metadata.deletionTimestamp !== undefined)
      return {}
    const { brokerSpec } = configuration.spec
    const { namespace, uid } = configuration.metadata
    const found = deployments.cache.get(objectKey(namespace, deploymentName(configuration)))
    const current = found !== undefined && belongsTo(found, uid) ? found : undefined
    if (brokerSpec === undefined || !('brokerDeploymentSpec' in brokerSpec)) {
      if (current !== undefined)
        await deployments.remove(current, { propagationPolicy: 'Background', signal })
      return {}
    }
    if (current !== undefined) await this.#removeRefused(key, current.metadata.name, signal)
    const hash = specHash(brokerSpec.brokerDeploymentSpec)
    const deployment = brokerDeployment(configuration, brokerSpec.brokerDeploymentSpec, hash)
    if (current && specHashOf(current) === hash && isAsApplied(current, deployment)) return {}
    await deployments.apply(deployment, uid, signal)
    log.info({ configuration: configuration.metadata.name }, 'deployment applied')
    return {}
  }

  /** The ReplicaSet replaces Pods that the kubelet refused, and never deletes them. */
  async #removeRefused(key: ObjectKey, deployment: string, signal: AbortSignal): Promise<void> {
    const { state, log } = this.#options
    const refused = state
      .podsLabelled('configuration', key)
      .filter((pod) => isOf(pod, deployment) && isRefused(pod) && !pod.hasRun)
    for (const pod of refused) {
      if (pod.metadata.deletionTimestamp !== undefined) continue
      await state.pods.remove(pod, { gracePeriodSeconds: 0, signal })
      log.info({ pod: pod.metadata.name }, 'refused broker removed')
    }
  }
}

/**
 * Whether a ReplicaSet of the Deployment made the Pod: its name ends with the template's digest.
 */
function isOf({ metadata }: Pod, deployment: string): boolean {
  const owner = controllerOf(metadata)
  return (
    owner?.kind === 'ReplicaSet' &&
    owner.name === `${deployment}-${metadata.labels?.['pod-template-hash']}`
  )
}
