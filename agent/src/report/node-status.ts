import { type Condition, type Configuration, NO_HANDLER, type NodeStatus } from '@akrijs/api'
import { kindOf, messageOf } from '@akrijs/runtime'
import type { DeviceReport } from '@akrijs/sdk/handler'
import type { DeviceSet, LeftOut } from '../discovery/device-set.js'
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
export function refusedStatus(
  configuration: Configuration | undefined,
  rival: Configuration,
): NodeStatus {
  const { namespace, name } = rival.metadata
  const claim =
    configuration === undefined || configuration.metadata.name === name
      ? ''
      : ' and could have an Instance of this name'
  const message =
    `Configuration ${name} of namespace ${namespace} is older${claim}, and resources are ` +
    'named without a namespace; choose another name'
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
    conditions: [conditionOf('Ready', 'False', reason, message)],
  }
}

/** A condition without its type. */
type Finding = readonly [status: Condition['status'], reason: string, message: string]

function conditionOf(
  type: Condition['type'],
  ...[status, reason, message]: Finding
): NodeStatus['conditions'][number] {
  return { type, status, reason, message }
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
  const failed = endpoints.find(({ state }) => state.phase === 'failed')?.state
  if (failed?.phase !== 'failed') return ['Unknown', 'Connecting', 'the handler is being asked']
  if (PROPERTY_FAILURES[failed.reason] !== undefined)
    return ['Unknown', failed.reason, 'the handler has not been asked yet']
  return ['False', failed.reason, failed.message]
}

function discovering({ discovery: { endpoints }, reports }: StatusInput): Finding {
  const states = endpoints.map(({ state }) => state)
  const refused = states.find((state) => state.phase === 'refused')
  if (refused?.phase === 'refused') return ['False', 'InvalidDetails', refused.message]
  const failed = states.find((state) => state.phase === 'failed')
  if (failed?.phase === 'failed') return ['False', failed.reason, failed.message]
  if (states.some((state) => state.phase === 'open' && state.listed))
    return ['True', 'Listening', ['the handler tells of changes', ...remarksOf(reports)].join('; ')]
  return ['Unknown', 'Waiting', 'no list of devices has come yet']
}

/** `Ready` shows the first finding: what a person has to change comes before what follows of it. */
function ready(input: StatusInput): Finding {
  return (
    reconcileFailed(input) ??
    nameTaken(input) ??
    digestCollision(input) ??
    notRegistered(input) ??
    heldInstances(input) ??
    refusedDevices(input) ??
    wrongRequest(input) ??
    lostHandler(input) ??
    tooManyNames(input) ??
    tooManyDevices(input) ??
    unanswered(input) ??
    problemsOfDevices(input) ??
    progress(input) ??
    served(input)
  )
}

/** The agent retries after a transient failure; a person has nothing to do. */
function reconcileFailed({ failure }: StatusInput): Finding | undefined {
  if (failure === undefined || kindOf(failure) === 'transient') return undefined
  const reason = kindOf(failure) === 'bug' ? 'InternalError' : 'ReconcileFailed'
  return ['False', reason, messageOf(failure)]
}

function nameTaken({ taken }: StatusInput): Finding | undefined {
  const clash = firstBy(taken, ({ device }) => device)
  return (
    clash && [
      'False',
      'NameTaken',
      `device ${JSON.stringify(clash.device)} has no Instance: the older Configuration ` +
        `${clash.owner} has its name, and resources are named without a namespace; choose ` +
        'another name for one of the two Configurations',
    ]
  )
}

function digestCollision({ collisions }: StatusInput): Finding | undefined {
  const collision = firstBy(collisions, ({ refused }) => refused)
  if (collision === undefined) return undefined
  const [kept, refused] = [JSON.stringify(collision.kept), JSON.stringify(collision.refused)]
  const message = `devices ${kept} and ${refused} have the same digest; the second has no Instance`
  const others = collisions.length - 1
  const more = others > 0 ? `; ${others} more devices have none` : ''
  return ['False', 'DigestCollision', `${message}${more}`]
}

function notRegistered({ registrations }: StatusInput): Finding | undefined {
  const refused = registrations.filter(({ isRefused }) => isRefused)
  const problems = refused.length > 0 ? refused : registrations
  const first = firstBy(problems, ({ resourceName }) => resourceName)
  if (first === undefined) return undefined
  const more = problems.length > 1 ? '; other resources too' : ''
  const reason = first.isRefused ? 'RegistrationRefused' : 'KubeletUnavailable'
  return ['False', reason, `${first.message}${more}`]
}

/** The same of the same problems in any order: each change is an Event. */
function firstBy<T>(items: readonly T[], nameOf: (item: T) => string): T | undefined {
  return items.reduce<T | undefined>(
    (first, item) => (first !== undefined && nameOf(first) <= nameOf(item) ? first : item),
    undefined,
  )
}

/** The most finalizers in a message. */
const SHOWN_FINALIZERS = 3

function heldInstances({ held, devices: { devices } }: StatusInput): Finding | undefined {
  const first = firstBy(held, ({ name }) => name)
  if (first === undefined) return undefined
  const shown = first.finalizers.slice(0, SHOWN_FINALIZERS).join(', ')
  const more = first.finalizers.length > SHOWN_FINALIZERS ? ', …' : ''
  const message =
    `${held.length} of ${devices.size} devices are not offered: their Instances are being ` +
    `deleted, and finalizers hold them; ${first.name}: ${shown}${more}`
  return ['False', 'InstanceBeingDeleted', message]
}

function refusedDevices({ devices: { devices } }: StatusInput): Finding | undefined {
  const refused = [...devices.values()].filter(({ refusal }) => refusal !== undefined)
  const first = firstBy(refused, ({ device }) => device.id)
  if (first === undefined) return undefined
  const message =
    `${refused.length} of ${devices.size} devices are not offered; device ` +
    `${JSON.stringify(first.device.id)}: ${first.refusal}`
  return ['False', 'DeviceRefused', message]
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

function tooManyNames({ refusals }: StatusInput): Finding | undefined {
  if (refusals.length === 0) return undefined
  const cause = refusals.some(({ why }) => why === 'full')
    ? 'the Node has too many names of resources, or too many old names of this Configuration; ' +
      'an operator can remove old names, or raise --max-resource-names of the agent'
    : 'the Node had many new names of resources; more follow, as many an hour as ' +
      '--new-resource-names of the agent says'
  return ['False', 'TooManyResources', `${refusals.length} resources are not offered: ${cause}`]
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

function tooManyDevices({ devices: { devices, leftOut } }: StatusInput): Finding | undefined {
  if (leftOut === undefined) return undefined
  const message =
    `${leftOut.devices} devices are left out and ${devices.size} are served: ` +
    BOUNDS[leftOut.bound]
  return ['False', 'TooManyDevices', message]
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

function problemsOfDevices({ reports, devices: { devices } }: StatusInput): Finding | undefined {
  const problems = deviceReportsText(reports, true)
  if (problems === undefined) return undefined
  const leftOut = deviceReportsText(reports, false) ?? []
  const texts = [`${devices.size} devices`, problems, leftOut]
  return ['False', 'DeviceProblems', texts.flat().join('; ')]
}

function progress({ devices: { devices }, present }: StatusInput): Finding | undefined {
  return present < devices.size
    ? ['Unknown', 'Progressing', `${present} of ${devices.size} devices have an Instance`]
    : undefined
}

/** The reason for "0 devices" if the handler names no device. */
const NONE_SEEN = 'the handler saw none'
const UNTOLD = 'the log of the handler can say why'
const NO_REASON =
  'it gives no reason: check discoveryDetails, and run `akri discover` with them on the node'

function served({ reports, devices: { devices } }: StatusInput): Finding {
  const leftOut = deviceReportsText(reports, false)
  if (leftOut !== undefined)
    return ['True', 'DevicesLeftOut', `${devices.size} devices; ${leftOut}`]
  if (devices.size > 0) return ['True', 'AllDevicesServed', `${devices.size} devices`]
  const remarks = remarksOf(reports)
  const why = reports === undefined ? UNTOLD : [NONE_SEEN, remarks.length > 0 ? remarks : NO_REASON]
  return ['True', 'NoDevices', ['0 devices', why].flat(2).join('; ')]
}
