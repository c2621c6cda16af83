import type { Condition, Configuration, Instance, NodeStatus } from '@akrijs/api'
import { kindOf, messageOf } from '@akrijs/runtime'
import type { DiscoveryStatus } from '../discovery/configuration-discovery.js'
import type { DeviceSet } from '../discovery/device-set.js'
import type { DigestCollision } from '../instances/instance-plan.js'

interface StatusInput {
  readonly configuration: Configuration
  readonly discovery: DiscoveryStatus
  readonly devices: DeviceSet
  readonly collisions: readonly DigestCollision[]
  /** The Instances of this Configuration that name this node. */
  readonly instances: readonly Instance[]
  /** The error of the last reconcile; undefined after a success. */
  readonly failure?: unknown
}

/** The answer of one node to "why are there no devices?". */
export function nodeStatus(input: StatusInput): NodeStatus {
  return {
    observedGeneration: input.configuration.metadata.generation,
    devices: input.devices.devices.size,
    conditions: [handlerConnected(input), discovering(input), ready(input)],
  }
}

/** The status of a Configuration whose name belongs to an older Configuration. */
export function refusedStatus(
  configuration: Configuration | undefined,
  rival: Configuration,
): NodeStatus {
  const { namespace, name } = rival.metadata
  const message = `Configuration ${name} of namespace ${namespace} is older, and resources are named without a namespace; choose another name`
  return notReady(configuration, 'NameTaken', message)
}

/** The status of a Configuration whose status cannot be computed, because of a bug. */
export function brokenStatus(configuration: Configuration, error: unknown): NodeStatus {
  return notReady(configuration, 'InternalError', messageOf(error))
}

function notReady(
  configuration: Configuration | undefined,
  reason: string,
  message: string,
): NodeStatus {
  return {
    observedGeneration: configuration?.metadata.generation ?? 0,
    devices: 0,
    conditions: [{ type: 'Ready', status: 'False', reason, message }],
  }
}

type NodeCondition = Omit<Condition, 'lastTransitionTime'>

function handlerConnected({ discovery: { handler, endpoints } }: StatusInput): NodeCondition {
  const type = 'HandlerConnected'
  if (endpoints.length === 0) {
    return {
      type,
      status: 'False',
      reason: 'NoHandler',
      message: `no handler ${handler} is loaded or has registered`,
    }
  }
  const open = endpoints.filter(({ state }) => state.phase === 'open' || state.phase === 'refused')
  if (open.length > 0)
    return {
      type,
      status: 'True',
      reason: 'Connected',
      message: open.map(({ uid }) => uid).join(', '),
    }
  const failed = endpoints.find(({ state }) => state.phase === 'failed')?.state
  if (failed?.phase !== 'failed')
    return { type, status: 'Unknown', reason: 'Connecting', message: 'the handler is being asked' }
  if (failed.reason === 'MissingProperty' || failed.reason === 'UnreadableProperty')
    return {
      type,
      status: 'Unknown',
      reason: failed.reason,
      message: 'the handler has not been asked yet',
    }
  return { type, status: 'False', reason: failed.reason, message: failed.message }
}

function discovering({ discovery: { endpoints } }: StatusInput): NodeCondition {
  const type = 'Discovering'
  const states = endpoints.map(({ state }) => state)
  const refused = states.find((state) => state.phase === 'refused')
  if (refused?.phase === 'refused')
    return { type, status: 'False', reason: 'InvalidDetails', message: refused.message }
  const failed = states.find((state) => state.phase === 'failed')
  if (failed?.phase === 'failed')
    return { type, status: 'False', reason: failed.reason, message: failed.message }
  if (states.some((state) => state.phase === 'open' && state.listed))
    return { type, status: 'True', reason: 'Listening', message: 'the handler tells of changes' }
  return { type, status: 'Unknown', reason: 'Waiting', message: 'no list of devices has come yet' }
}

function ready({ devices, collisions, instances, failure }: StatusInput): NodeCondition {
  const type = 'Ready'
  // The agent retries after a transient failure; a person has nothing to do.
  if (failure !== undefined && kindOf(failure) !== 'transient') {
    const reason = kindOf(failure) === 'bug' ? 'InternalError' : 'ReconcileFailed'
    return { type, status: 'False', reason, message: messageOf(failure) }
  }
  const [collision] = collisions
  if (collision !== undefined) {
    const message = `devices ${JSON.stringify(collision.kept)} and ${JSON.stringify(collision.refused)} have the same digest; the second has no Instance`
    return { type, status: 'False', reason: 'DigestCollision', message }
  }
  const unhealthy = [...devices.devices.values()].filter(({ healthy }) => !healthy).length
  if (unhealthy > 0)
    return {
      type,
      status: 'False',
      reason: 'HandlerLost',
      message: `${unhealthy} of ${devices.devices.size} devices are not vouched for by their handler`,
    }
  if (instances.length < devices.devices.size) {
    return {
      type,
      status: 'Unknown',
      reason: 'Progressing',
      message: `${instances.length} of ${devices.devices.size} devices have an Instance`,
    }
  }
  if (!devices.complete)
    return {
      type,
      status: 'Unknown',
      reason: 'Waiting',
      message: 'not every handler has answered yet',
    }
  return {
    type,
    status: 'True',
    reason: 'AllDevicesServed',
    message: `${devices.devices.size} devices`,
  }
}
