import { type Condition, type Configuration, NO_HANDLER, type NodeStatus } from '@akrijs/api'
import { kindOf, messageOf, objectMessage } from '@akrijs/runtime'
import type { DeviceReport } from '@akrijs/sdk/handler'
import type { DeviceSet, DiscoveredDevice, LeftOut } from '../discovery/device-set.js'
import type { DiscoveryStatus } from '../discovery/discovery.js'
import type { SessionFailure } from '../discovery/discovery-session.js'
import { handlerOfUid } from '../handlers/handler-endpoint.js'
import type { InstancesView } from '../instances/instances-view.js'
import type { RegistrationProblem } from '../instances/served-instance.js'
import { deviceReportsText, remarksOf } from './device-reports.js'

interface StatusInput extends Omit<InstancesView, 'served'> {
  readonly configuration: Configuration
  readonly discovery: DiscoveryStatus
  readonly devices: DeviceSet
  /** Of all endpoints of the handler; undefined if none can tell. */
  readonly reports: readonly DeviceReport[] | undefined
  /** Resources that the kubelet does not have. */
  readonly registrations: readonly RegistrationProblem[]
  /** The error of the last reconcile; undefined after a success. */
  readonly failure?: unknown
}

/** The answer of one node to "why are there no devices?". */
export function nodeStatus(input: StatusInput): NodeStatus {
  return {
    observedGeneration: input.configuration.metadata.generation,
    devices: input.devices.devices.size,
    ...(input.devices.leftOut && { leftOut: input.devices.leftOut.devices }),
    conditions: [
      conditionOf('HandlerConnected', ...handlerConnected(input)),
      conditionOf('Discovering', ...discovering(input)),
      conditionOf('Ready', ...ready(input)),
    ],
  }
}

/**
 * The status of a Configuration whose name belongs to an older Configuration, or could belong to
 * one of its Instances.
 */
export function refusedStatus(configuration: Configuration, rival: Configuration): NodeStatus {
  const { namespace, name } = rival.metadata
  const isSame = configuration.metadata.name === name
  const claim = isSame ? '' : ' and could have an Instance of this name'
  const message =
    `Configuration ${name} of namespace ${namespace} is older${claim}, and resources are ` +
    'named without a namespace; choose another name'
  return notReady(configuration, 'NameTaken', message)
}

/** The status of a Configuration of which `Ready` alone is known. */
export function notReady({ metadata }: Configuration, reason: string, message: string): NodeStatus {
  const conditions = [conditionOf('Ready', 'False', reason, message)]
  return { observedGeneration: metadata.generation, devices: 0, conditions }
}

/** A condition without its type. */
type Finding = readonly [status: Condition['status'], reason: string, message: string]

/** A condition as a cluster stores it: the message can quote a handler, a device or an author. */
function conditionOf(
  type: Condition['type'],
  ...[status, reason, message]: Finding
): NodeStatus['conditions'][number] {
  return { type, status, reason, message: objectMessage(message) }
}

/** The reasons of `Ready` for the failures of a session that has not asked its handler yet. */
const PROPERTY_FAILURES: Readonly<Partial<Record<SessionFailure, string>>> = {
  MissingProperty: 'SecretNotReadable',
  PropertyForbidden: 'SecretNotReadable',
  UnreadableProperty: 'SecretNotReadable',
  PropertyRefused: 'NoConsent',
}

function handlerConnected({ discovery: { handler, endpoints } }: StatusInput): Finding {
  if (endpoints.length === 0) return ['False', NO_HANDLER, noHandler(handler)]
  const open = endpoints.filter(({ state }) => state.phase === 'open' || state.phase === 'refused')
  if (open.length > 0) return ['True', 'Connected', open.map(({ uid }) => uid).join(', ')]
  const failed = endpoints.map(({ state }) => state).find((state) => state.phase === 'failed')
  if (failed === undefined) return ['Unknown', 'Connecting', 'the handler is being asked']
  if (PROPERTY_FAILURES[failed.reason] !== undefined)
    return ['Unknown', failed.reason, 'the handler has not been asked yet']
  return ['False', failed.reason, failed.message]
}

function discovering({ discovery: { endpoints }, reports }: StatusInput): Finding {
  const states = endpoints.map(({ state }) => state)
  const refused = states.find((state) => state.phase === 'refused')
  if (refused !== undefined) return ['False', 'InvalidDetails', refused.message]
  const failed = states.find((state) => state.phase === 'failed')
  if (failed !== undefined) return ['False', failed.reason, failed.message]
  if (states.some((state) => state.phase === 'open' && state.listed))
    return ['True', 'Listening', ['the handler tells of changes', ...remarksOf(reports)].join('; ')]
  return ['Unknown', 'Waiting', 'no list of devices has come yet']
}

/** `Ready` shows the first finding: what a person has to change comes before what follows of it. */
function ready(input: StatusInput): Finding {
  return (
    withoutInstance(input) ??
    notOffered(input) ??
    wrongRequest(input) ??
    lostHandler(input) ??
    beyondBound(input) ??
    unanswered(input) ??
    served(input)
  )
}

function withoutInstance({ failure, taken, collisions }: StatusInput): Finding | undefined {
  // The agent retries after a transient failure; a person has nothing to do.
  if (failure !== undefined && kindOf(failure) !== 'transient') {
    const reason = kindOf(failure) === 'bug' ? 'InternalError' : 'ReconcileFailed'
    return ['False', reason, messageOf(failure)]
  }
  const clash = firstBy(taken, ({ device }) => device)
  if (clash !== undefined) {
    const message =
      `device ${JSON.stringify(clash.device)} has no Instance: the older Configuration ` +
      `${clash.owner} has its name, and resources are named without a namespace; choose ` +
      'another name for one of the two Configurations'
    return ['False', 'NameTaken', message]
  }
  const collision = firstBy(collisions, ({ refused }) => refused)
  if (collision === undefined) return undefined
  const [kept, refused] = [JSON.stringify(collision.kept), JSON.stringify(collision.refused)]
  const message = `devices ${kept} and ${refused} have the same digest; the second has no Instance`
  const others = collisions.length - 1
  const more = others > 0 ? `; others without one: ${others}` : ''
  return ['False', 'DigestCollision', `${message}${more}`]
}

/** The most finalizers in a message. */
const SHOWN_FINALIZERS = 3

function notOffered({ registrations, held, devices }: StatusInput): Finding | undefined {
  const rejected = registrations.filter(({ isRefused }) => isRefused)
  const problems = rejected.length > 0 ? rejected : registrations
  const problem = firstBy(problems, ({ resourceName }) => resourceName)
  if (problem !== undefined) {
    const more = problems.length > 1 ? '; other resources too' : ''
    const reason = problem.isRefused ? 'RegistrationRefused' : 'KubeletUnavailable'
    return ['False', reason, `${problem.message}${more}`]
  }
  const all = devices.devices.size
  const instance = firstBy(held, ({ name }) => name)
  if (instance !== undefined) {
    const shown = instance.finalizers.slice(0, SHOWN_FINALIZERS).join(', ')
    const more = instance.finalizers.length > SHOWN_FINALIZERS ? ', …' : ''
    const message =
      `${held.length} of ${all} devices are not offered: their Instances are being ` +
      `deleted, and finalizers hold them; ${instance.name}: ${shown}${more}`
    return ['False', 'InstanceBeingDeleted', message]
  }
  const refused: DiscoveredDevice[] = []
  for (const each of devices.devices.values()) if (each.refusal !== undefined) refused.push(each)
  const first = firstBy(refused, ({ device }) => device.id)
  if (first === undefined) return undefined
  const message =
    `${refused.length} of ${all} devices are not offered; device ` +
    `${JSON.stringify(first.device.id)}: ${first.refusal}`
  return ['False', 'DeviceRefused', message]
}

/** The same of the same problems in any order: each change is an Event. */
function firstBy<T>(items: readonly T[], nameOf: (item: T) => string): T | undefined {
  return items.reduce<T | undefined>(
    (first, item) => (first !== undefined && nameOf(first) <= nameOf(item) ? first : item),
    undefined,
  )
}

/** The request is wrong, or a Secret is missing: an edit or an operator has to remove the cause. */
function wrongRequest({ discovery: { endpoints } }: StatusInput): Finding | undefined {
  for (const { state, answer } of endpoints) {
    if (state.phase === 'refused') return ['False', 'InvalidDetails', state.message]
    if (answer === 'fresh' || state.phase !== 'failed') continue
    const reason = PROPERTY_FAILURES[state.reason]
    if (reason !== undefined) return ['False', reason, state.message]
  }
  return undefined
}

/** The devices of a handler that does not answer are lost; after an edit, others go. */
function lostHandler(input: StatusInput): Finding | undefined {
  const { devices } = input.devices
  const { handler, endpoints } = input.discovery
  const unhealthy = [...devices.values()].filter(({ healthy }) => !healthy)
  if (unhealthy.length === 0) return undefined
  const missing = unanswered(input)
  const unasked = endpoints.filter(({ answer }) => answer === 'missing').map(({ uid }) => uid)
  const isLost = unhealthy.some(
    ({ endpoint }) => handlerOfUid(endpoint) === handler && !unasked.includes(endpoint),
  )
  if (missing !== undefined && !isLost) return undefined
  const count = `${unhealthy.length} of ${devices.size}`
  const why = missing === undefined ? '' : `: ${missing[2]}`
  return ['False', 'HandlerLost', `${count} devices are not vouched for by their handler${why}`]
}

const BOUNDS: Readonly<Record<LeftOut['bound'], string>> = {
  perConfiguration:
    'that is the bound of one Configuration; --max-configuration-devices of the agent raises it',
  perNamespace:
    'that is the bound of one namespace, half of the bound of the node; --max-devices of the ' +
    'agent raises both',
  slotsPerNamespace:
    'the devices of this namespace have half of the slots of the node, the bound of one ' +
    'namespace; a smaller capacity leaves room for more devices, and --max-slots of the agent ' +
    'raises the bound',
  perNode: 'all Configurations of this node share one bound; --max-devices of the agent raises it',
  slots:
    'the devices of this node have the most slots; a smaller capacity leaves room for more ' +
    'devices, and --max-slots of the agent raises the bound',
}

function beyondBound({ refusals, devices }: StatusInput): Finding | undefined {
  if (refusals.length > 0) {
    const cause = refusals.some(({ why }) => why === 'full')
      ? 'the Node has too many names of resources, or too many old names of this Configuration; ' +
        'an operator can remove old names, or raise --max-resource-names of the agent'
      : 'the Node had many new names of resources; more follow, as many an hour as ' +
        '--new-resource-names of the agent says'
    return ['False', 'TooManyResources', `${refusals.length} resources are not offered: ${cause}`]
  }
  const { leftOut } = devices
  if (leftOut === undefined) return undefined
  const counts = `${leftOut.devices} devices are left out and ${devices.devices.size} are served`
  return ['False', 'TooManyDevices', `${counts}: ${BOUNDS[leftOut.bound]}`]
}

function noHandler(handler: string): string {
  return `no handler ${handler} is loaded or has registered`
}

/**
 * Why the handler does not answer the present spec on this node. Devices that it left have a reason
 * of their own: an endpoint that is out of reach and left none is no longer expected here, nor one
 * that has never answered where another one does, such as the handler's next Pod.
 */
function unanswered({ discovery, devices: { complete } }: StatusInput): Finding | undefined {
  const { handler, endpoints } = discovery
  // After the start of an agent, handlers register one after the other.
  if (endpoints.length === 0) {
    const next = 'load it in the agent, or look at the Pod of the handler and its log'
    return [complete ? 'False' : 'Unknown', NO_HANDLER, `${noHandler(handler)}; ${next}`]
  }
  const isAnswered = endpoints.some(({ answer }) => answer === 'fresh')
  let left: string | undefined
  for (const { state, answer } of endpoints) {
    if (answer === 'fresh' || state.phase !== 'failed') continue
    const isGone = state.reason === 'Unreachable' && (answer === 'old' || isAnswered)
    const { reason, message } = state
    // A missing property has been shown before.
    if (!isGone) return ['False', reason === 'InternalError' ? reason : 'HandlerFailed', message]
    left = message
  }
  if (endpoints.some(({ answer, state }) => answer !== 'fresh' && state.phase !== 'failed'))
    return ['Unknown', 'Waiting', 'not every handler has answered yet']
  if (left === undefined || isAnswered) return undefined
  return ['False', NO_HANDLER, `the handler ${handler} has left: ${left}`]
}

/** The reason for "0 devices" if the handler gives none. */
const NO_REASON =
  'it gives no reason: check discoveryDetails, and run `akri discover` with them on the node'

function served({ reports, present, devices: { devices } }: StatusInput): Finding {
  const count = `${devices.size} devices`
  const problems = deviceReportsText(reports, true)
  const leftOut = deviceReportsText(reports, false)
  if (problems !== undefined)
    return ['False', 'DeviceProblems', [count, problems, leftOut ?? []].flat().join('; ')]
  if (present < devices.size)
    return ['Unknown', 'Progressing', `${present} of ${count} have an Instance`]
  if (leftOut !== undefined) return ['True', 'DevicesLeftOut', `${count}; ${leftOut}`]
  if (devices.size > 0) return ['True', 'AllDevicesServed', count]
  const why =
    reports === undefined
      ? 'the log of the handler can say why'
      : `the handler saw none; ${remarksOf(reports).join('; ') || NO_REASON}`
  return ['True', 'NoDevices', `${count}; ${why}`]
}
