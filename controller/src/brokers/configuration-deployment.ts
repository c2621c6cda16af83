import { type ObjectKey, objectKey } from '@akrijs/kube'
import type { Logger } from '@akrijs/runtime'
import { isAsApplied } from '../applied-fields.js'
import type { ClusterState } from '../cluster-state.js'
import { ANNOTATIONS, belongsTo, controllerOf, specHash } from '../labels.js'
import { ObjectWriter } from '../object-writer.js'
import type { AppliedObject, Pod } from '../objects.js'
import { brokerDeployment, deploymentName } from './broker-template.js'
import { isRefused } from './pod-plan.js'

export interface ConfigurationDeploymentOptions {
  readonly state: ClusterState
  readonly log: Logger
  /** Ends with the controller's turn. */
  readonly signal: AbortSignal
}

/** The Deployment of a Configuration whose brokers share all of its devices. What becomes of its Pods is Kubernetes' own. */
export class ConfigurationDeployment {
  readonly #options: ConfigurationDeploymentOptions
  readonly #deployments: ObjectWriter<AppliedObject>
  readonly #pods: ObjectWriter<Pod>

  constructor(options: ConfigurationDeploymentOptions) {
    this.#options = options
    this.#deployments = new ObjectWriter(options.state.deployments, options.signal)
    this.#pods = new ObjectWriter(options.state.pods, options.signal)
  }

  async reconcile(key: ObjectKey): Promise<undefined> {
    const { state, log, signal } = this.#options
    const configuration = state.configurations.cache.get(key)
    // What it owned goes with it.
    if (configuration === undefined || configuration.metadata.deletionTimestamp !== undefined)
      return
    const { brokerSpec } = configuration.spec
    const { namespace, uid } = configuration.metadata
    const found = state.deployments.cache.get(objectKey(namespace, deploymentName(configuration)))
    const own = found !== undefined && belongsTo(found, uid) ? found : undefined
    if (brokerSpec === undefined || !('brokerDeploymentSpec' in brokerSpec)) {
      if (own !== undefined)
        await this.#deployments.remove(own, { propagationPolicy: 'Background', signal })
      return
    }
    if (own !== undefined) await this.#removeRefused(key, own.metadata.name)
    const hash = specHash(brokerSpec.brokerDeploymentSpec)
    const deployment = brokerDeployment(configuration, brokerSpec.brokerDeploymentSpec, hash)
    if (own?.metadata.annotations?.[ANNOTATIONS.specHash] === hash && isAsApplied(own, deployment))
      return
    await this.#deployments.apply(deployment, uid, signal)
    log.info({ configuration: configuration.metadata.name }, 'deployment applied')
  }

  /** Pods that no kubelet let in are of no use to anybody: their ReplicaSet has made others, and would leave these for ever. */
  async #removeRefused(key: ObjectKey, deployment: string): Promise<void> {
    const { state, log, signal } = this.#options
    for (const pod of state.podsLabelled('configuration', key)) {
      if (!isOf(pod, deployment) || !isRefused(pod) || pod.hasRun || this.#pods.isLeaving(pod))
        continue
      await this.#pods.remove(pod, { gracePeriodSeconds: 0, signal })
      log.info({ pod: pod.metadata.name }, 'refused broker removed')
    }
  }
}

/** Whether a ReplicaSet of the Deployment made it: those are named after it, and after the digest of the template. */
function isOf({ metadata }: Pod, deployment: string): boolean {
  const owner = controllerOf(metadata)
  return (
    owner?.kind === 'ReplicaSet' &&
    owner.name === `${deployment}-${metadata.labels?.['pod-template-hash']}`
  )
}
