import { type BrokerSpec, type Configuration, configurationOf, type Instance } from '@akrijs/api'
import { ApiError, type ObjectKey, objectKey } from '@akrijs/kube'
import type { Logger } from '@akrijs/runtime'
import { isAsApplied } from '../applied-fields.js'
import type { NamedObject } from '../brokers/broker-template.js'
import { isEnded } from '../brokers/pod-plan.js'
import type { ClusterState } from '../cluster-state.js'
import { ANNOTATIONS, belongsTo, specHash } from '../labels.js'
import { ObjectWriter } from '../object-writer.js'
import type { AppliedObject, Pod } from '../objects.js'
import { configurationService, instanceService } from './service-template.js'

export interface BrokerServicesOptions {
  readonly state: ClusterState
  readonly log: Logger
  /** Ends with the controller's turn. */
  readonly signal: AbortSignal
}

/**
 * The Services of Instances and Configurations. One comes with the first broker that runs; it stays while brokers are there
 * or about to come, so that its address stays over their restarts, and goes with the last.
 */
export class BrokerServices {
  readonly #options: BrokerServicesOptions
  readonly #services: ObjectWriter<AppliedObject>

  constructor(options: BrokerServicesOptions) {
    this.#options = options
    this.#services = new ObjectWriter(options.state.services, options.signal)
  }

  async reconcileInstance(key: ObjectKey): Promise<undefined> {
    const { state } = this.#options
    const instance = state.instances.cache.get(key)
    const configuration = instance && this.#configurationOf(instance)
    if (
      instance === undefined ||
      configuration === undefined ||
      instance.metadata.deletionTimestamp !== undefined
    )
      return
    const { brokerSpec, instanceServiceSpec } = configuration.spec
    await this.#reconcile({
      owner: instance,
      // The Pods of a Deployment are for no Instance in particular.
      spec:
        brokerSpec !== undefined && 'brokerDeploymentSpec' in brokerSpec
          ? undefined
          : instanceServiceSpec,
      make: (spec, hash) => instanceService(instance, spec, hash),
      pods: state.podsLabelled('instance', key),
      expected: this.#expectsBrokers(brokerSpec, [instance]),
    })
  }

  async reconcileConfiguration(key: ObjectKey): Promise<undefined> {
    const { state } = this.#options
    const configuration = state.configurations.cache.get(key)
    if (configuration === undefined || configuration.metadata.deletionTimestamp !== undefined)
      return
    const { brokerSpec, configurationServiceSpec } = configuration.spec
    await this.#reconcile({
      owner: configuration,
      spec: configurationServiceSpec,
      make: (spec, hash) => configurationService(configuration, spec, hash),
      pods: state.podsLabelled('configuration', key),
      expected: this.#expectsBrokers(brokerSpec, state.instancesOf(key)),
    })
  }

  async #reconcile({ owner, spec, make, pods, expected }: Wanted): Promise<void> {
    const { state, log, signal } = this.#options
    const hash = spec && specHash(spec)
    const service = make(spec ?? {}, hash ?? '')
    const { name, namespace } = service.metadata
    const found = state.services.cache.get(objectKey(namespace, name))
    const own = found !== undefined && belongsTo(found, owner.metadata.uid) ? found : undefined
    const isUsed = pods.some((pod) => !isEnded(pod))
    if (hash === undefined || !(isUsed || expected)) {
      if (own === undefined) return
      await this.#services.remove(own, { signal })
      log.info({ service: name }, 'service removed')
      return
    }
    if (own?.metadata.annotations?.[ANNOTATIONS.specHash] === hash && isAsApplied(own, service))
      return
    if (own === undefined && !pods.some(({ phase }) => phase === 'Running')) return
    await this.#apply(service, owner.metadata.uid, own)
    log.info({ service: name }, 'service applied')
  }

  async #apply(service: NamedObject, uid: string, own: AppliedObject | undefined): Promise<void> {
    const { signal } = this.#options
    try {
      await this.#services.apply(service, uid, signal)
    } catch (error) {
      // Some fields cannot be changed, such as an address that was given: the Service has to be made anew.
      if (own === undefined || !ApiError.is(error, 422)) throw error
      await this.#services.remove(own, { signal })
      await this.#services.apply(service, uid, signal)
    }
  }

  /** Whether there are brokers of the Instances, or there will be again. */
  #expectsBrokers(brokerSpec: BrokerSpec | undefined, instances: readonly Instance[]): boolean {
    const { state } = this.#options
    if (brokerSpec === undefined) return false
    if ('brokerDeploymentSpec' in brokerSpec) return true
    if ('brokerPodSpec' in brokerSpec) return instances.some(({ spec }) => spec.nodes.length > 0)
    return instances.some(({ metadata }) =>
      state.jobsOwnedBy(metadata.uid).some(({ outcome }) => outcome === undefined),
    )
  }

  #configurationOf(instance: Instance): Configuration | undefined {
    const { state } = this.#options
    const configuration = state.configurations.cache.get(configurationOf(instance))
    return configuration !== undefined && belongsTo(instance, configuration.metadata.uid)
      ? configuration
      : undefined
  }
}

interface Wanted {
  readonly owner: Instance | Configuration
  readonly spec: Readonly<Record<string, unknown>> | undefined
  make(spec: Readonly<Record<string, unknown>>, hash: string): NamedObject
  /** Those that the Service finds. */
  readonly pods: readonly Pod[]
  /** Whether brokers are about to come if there is none at the moment. */
  readonly expected: boolean
}
