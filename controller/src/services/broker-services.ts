import type { BrokerSpec, Configuration, Instance } from '@akrijs/api'
import { ApiError, type ObjectKey, objectKey, type ReconcileResult } from '@akrijs/kube'
import type { Logger } from '@akrijs/runtime'
import type { NamedObject } from '../brokers/broker-template.js'
import { isEnded } from '../brokers/pod-state.js'
import type { ClusterState } from '../cluster-state.js'
import type { AppliedObject, Pod } from '../kubernetes-objects.js'
import { belongsTo, specHash, specHashOf } from '../labels.js'
import { isAsApplied } from '../managed-fields.js'
import { configurationService, instanceService } from './service-template.js'

interface BrokerServicesOptions {
  readonly state: ClusterState
  readonly log: Logger
}

/**
 * The Services of Instances and Configurations. A Service is created with the first running broker.
 * It stays, with its address, while brokers run or will run again, and is removed with the last.
 */
export class BrokerServices {
  readonly #options: BrokerServicesOptions

  constructor(options: BrokerServicesOptions) {
    this.#options = options
  }

  async reconcileInstance(key: ObjectKey, signal: AbortSignal): Promise<ReconcileResult> {
    const { state } = this.#options
    const instance = state.instances.cache.get(key)
    const configuration = instance && state.ownerOf(instance)
    if (
      instance === undefined ||
      configuration === undefined ||
      instance.metadata.deletionTimestamp !== undefined
    )
      return {}
    const { brokerSpec, instanceServiceSpec } = configuration.spec
    // The Pods of a Deployment belong to no Instance.
    const hasDeployment = brokerSpec !== undefined && 'brokerDeploymentSpec' in brokerSpec
    return this.#reconcile(
      {
        owner: instance,
        spec: hasDeployment ? undefined : instanceServiceSpec,
        make: (spec, hash) => instanceService(instance, spec, hash),
        pods: state.podsLabelled('instance', key),
        expectsBrokers: this.#expectsBrokers(brokerSpec, [instance]),
      },
      signal,
    )
  }

  async reconcileConfiguration(key: ObjectKey, signal: AbortSignal): Promise<ReconcileResult> {
    const { state } = this.#options
    const configuration = state.configurations.cache.get(key)
    if (configuration === undefined || configuration.metadata.deletionTimestamp !== undefined)
      return {}
    const { brokerSpec, configurationServiceSpec } = configuration.spec
    return this.#reconcile(
      {
        owner: configuration,
        spec: configurationServiceSpec,
        make: (spec, hash) => configurationService(configuration, spec, hash),
        pods: state.podsLabelled('configuration', key),
        expectsBrokers: this.#expectsBrokers(brokerSpec, state.instancesOf(key)),
      },
      signal,
    )
  }

  async #reconcile(
    { owner, spec, make, pods, expectsBrokers }: DesiredService,
    signal: AbortSignal,
  ): Promise<ReconcileResult> {
    const { state, log } = this.#options
    const hash = spec && specHash(spec)
    const service = make(spec ?? {}, hash ?? '')
    const { uid } = owner.metadata
    const { name, namespace } = service.metadata
    const found = state.services.cache.get(objectKey(namespace, name))
    const current = found !== undefined && belongsTo(found, uid) ? found : undefined
    const isUsed = pods.some((pod) => !isEnded(pod))
    if (hash === undefined || !(isUsed || expectsBrokers)) {
      if (current === undefined) return {}
      await state.services.remove(current, { signal })
      log.info({ service: name }, 'service removed')
      return {}
    }
    if (current && specHashOf(current) === hash && isAsApplied(current, service)) return {}
    if (current === undefined && !pods.some(({ phase }) => phase === 'Running')) return {}
    await this.#apply(service, uid, current, signal)
    log.info({ service: name }, 'service applied')
    return {}
  }

  async #apply(
    service: NamedObject,
    uid: string,
    current: AppliedObject | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    const { services } = this.#options.state
    try {
      await services.apply(service, uid, signal)
    } catch (error) {
      // Some fields of a Service are immutable, such as clusterIP: the Service has to be replaced.
      if (current === undefined || !ApiError.is(error, 422)) throw error
      await services.remove(current, { signal })
      await services.apply(service, uid, signal)
    }
  }

  /** Whether the Instances have brokers, or will have brokers again. */
  #expectsBrokers(brokerSpec: BrokerSpec | undefined, instances: readonly Instance[]): boolean {
    const { state } = this.#options
    if (brokerSpec === undefined) return false
    if ('brokerDeploymentSpec' in brokerSpec) return true
    if ('brokerPodSpec' in brokerSpec) return instances.some(({ spec }) => spec.nodes.length > 0)
    return instances.some(({ metadata }) =>
      state.jobsOwnedBy(metadata.uid).some(({ outcome }) => outcome === undefined),
    )
  }
}

interface DesiredService {
  readonly owner: Instance | Configuration
  /** The user's spec; undefined if no Service is specified. */
  readonly spec: Readonly<Record<string, unknown>> | undefined
  make(spec: Readonly<Record<string, unknown>>, hash: string): NamedObject
  /** The Pods that the Service selects. */
  readonly pods: readonly Pod[]
  /** Whether brokers will run, also if none runs now. */
  readonly expectsBrokers: boolean
}
