import { type BrokerSpec, type Configuration, type Instance, labelValue } from '@akrijs/api'
import { ApiError, type ObjectKey } from '@akrijs/kube'
import type { ClusterState } from '../cluster-state.js'
import { isDeleted, type Pod } from '../kubernetes-objects.js'
import {
  ANNOTATIONS,
  CONTROLLER,
  LABELS,
  serviceName,
  specHash,
  specHashOf,
  TEMPLATE_HASH,
} from '../labels.js'
import { isAsApplied, type NamedObject } from '../managed-fields.js'
import { controllerOf } from '../owners.js'
import type { Term } from '../term.js'
import { isEnded, isRefused } from './broker-state.js'
import { brokerDeployment, deploymentName, ownedMetadata } from './broker-template.js'

// The Services of Instances and Configurations. A Service is created with the first running broker.
// It stays, with its address, while brokers run or will run again, and is removed with the last.

/** How an API server says that a field of a Service cannot be changed. */
const IMMUTABLE = /immutable|may not change once set|can ?not be unset/

export async function reconcileInstanceService(
  key: ObjectKey,
  term: Term,
  signal: AbortSignal,
): Promise<void> {
  const { state } = term
  const instance = state.instances.cache.get(key)
  const configuration = instance && state.ownerOf(instance)
  if (instance === undefined || configuration === undefined || isDeleted(instance)) return
  const { brokerSpec, instanceServiceSpec } = state.workloadSpec(configuration)
  // The Pods of a Deployment belong to no Instance.
  const hasDeployment = brokerSpec !== undefined && 'brokerDeploymentSpec' in brokerSpec
  const desired = {
    owner: instance,
    spec: hasDeployment ? undefined : instanceServiceSpec,
    pods: state.pods.labelled('Instance', key),
    expectsBrokers: expectsBrokers(brokerSpec, [instance], state),
  }
  return reconcileService(desired, term, signal)
}

export async function reconcileConfigurationService(
  key: ObjectKey,
  term: Term,
  signal: AbortSignal,
): Promise<void> {
  const { state } = term
  const configuration = state.configuration(key)
  if (configuration === undefined || isDeleted(configuration)) return
  const { brokerSpec, configurationServiceSpec } = state.workloadSpec(configuration)
  const desired = {
    owner: configuration,
    spec: configurationServiceSpec,
    pods: state.pods.labelled('Configuration', key),
    expectsBrokers: expectsBrokers(brokerSpec, state.instancesByConfiguration.get(key), state),
  }
  return reconcileService(desired, term, signal)
}

interface DesiredService {
  readonly owner: Instance | Configuration
  /** The user's spec; undefined if no Service is specified. */
  readonly spec: Readonly<Record<string, unknown>> | undefined
  /** The Pods that the Service selects. */
  readonly pods: readonly Pod[]
  /** Whether brokers will run, also if none runs now. */
  readonly expectsBrokers: boolean
}

async function reconcileService(
  { owner, spec, pods, expectsBrokers }: DesiredService,
  { state: { services }, log }: Term,
  signal: AbortSignal,
): Promise<void> {
  const hash = spec && specHash(spec)
  const service = brokerService(owner, spec ?? {}, hash ?? '')
  const { name } = service.metadata
  const current = services.named(name, owner)
  const isUsed = pods.some((pod) => !isEnded(pod))
  if (hash === undefined || !(isUsed || expectsBrokers)) {
    if (current === undefined) return
    await services.remove(current, { signal })
    log.info({ service: name }, 'service removed')
    return
  }
  if (current && specHashOf(current) === hash && isAsApplied(current, service)) return
  if (current === undefined && !pods.some(({ phase }) => phase === 'Running')) return
  try {
    await services.apply(service, owner, signal)
  } catch (error) {
    // Some fields of a Service are immutable, such as clusterIP: the Service has to be replaced.
    // With any other refusal, such as a port that another Service has, the Service stays.
    if (current === undefined || !ApiError.is(error, 422) || !IMMUTABLE.test(error.answer))
      throw error
    await services.remove(current, { signal })
    await services.apply(service, owner, signal)
  }
  log.info({ service: name }, 'service applied')
}

/** Whether the Instances have brokers, or will have brokers again. */
function expectsBrokers(
  brokerSpec: BrokerSpec | undefined,
  instances: readonly Instance[],
  { jobs }: ClusterState,
): boolean {
  if (brokerSpec === undefined) return false
  if ('brokerDeploymentSpec' in brokerSpec) return true
  if ('brokerPodSpec' in brokerSpec) return instances.some(({ spec }) => spec.nodes.length > 0)
  return instances.some((instance) =>
    jobs.ownedBy('Instance', instance).some(({ outcome }) => outcome === undefined),
  )
}

/**
 * The Service of one device, or of all devices of a Configuration: the user's spec with a selector
 * for the brokers, also for those of Jobs and Deployments. Any of them may answer.
 */
function brokerService(
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
