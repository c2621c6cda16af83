import { type Condition, type Configuration, NO_HANDLER, type NodeStatus } from '@akrijs/api'
import { kindOf, messageOf } from '@akrijs/runtime'
import type { DeviceReport } from '@akrijs/runtime/handler'
import type { DiscoveryStatus } from '../discovery/configuration-discovery.js'
import type { DeviceSet, DiscoveredDevice, LeftOut } from '../discovery/device-set.js'
import type { SessionFailure } from '../discovery/discovery-session.js'
import { isUidOf } from '../handlers/handler-endpoint.js'
import type { DigestCollision } from '../instances/device-names.js'
import type { TakenName } from '../instances/instance-plan.js'
import type { HeldInstance } from '../instances/instance-reconciler.js'
import type { NameRefusal } from '../instances/resource-names.js'
import type { RegistrationProblem } from '../instances/served-instance.js'
import { deviceReportsText, mergeReports, remarksOf } from './device-reports.js'

interface StatusInput {
  readonly configuration: Configuration
  readonly discovery: DiscoveryStatus
  readonly devices: DeviceSet
  readonly collisions: readonly DigestCollision[]
  /** Resources that are not offered, because their names are new. */
  readonly refusals: readonly NameRefusal[]
  readonly taken: readonly TakenName[]
  readonly held: readonly HeldInstance[]
  /** Resources that the kubelet does not have. */
  readonly registrations: readonly RegistrationProblem[]
  /** How many of the devices have an Instance. */
  readonly present: number
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

/** Reasons of a session that has not asked its handler yet. */
const PROPERTY_FAILURES: ReadonlySet<string> = new Set([
  'MissingProperty',
  'PropertyForbidden',
  'PropertyRefused',
  'UnreadableProperty',
])

function handlerConnected({ discovery: { handler, endpoints } }: StatusInput): Finding {
  if (endpoints.length === 0) return ['False', NO_HANDLER, noHandler(handler)]
  const open = endpoints.filter(({ state }) => state.phase === 'open' || state.phase === 'refused')
  if (open.length > 0) return ['True', 'Connected', open.map(({ uid }) => uid).join(', ')]
  const failed = endpoints.find(({ state }) => state.phase === 'failed')?.state
  if (failed?.phase !== 'failed') return ['Unknown', 'Connecting', 'the handler is being asked']
  if (PROPERTY_FAILURES.has(failed.reason))
    return ['Unknown', failed.reason, 'the handler has not been asked yet']
  return ['False', failed.reason, failed.message]
}

function discovering({ discovery: { endpoints } }: StatusInput): Finding {
  const states = endpoints.map(({ state }) => state)
  const remarks = remarksOf(mergeReports(endpoints.map(({ reports }) => reports)))
  const refused = states.find((state) => state.phase === 'refused')
  if (refused?.phase === 'refused') return ['False', 'InvalidDetails', refused.message]
  const failed = states.find((state) => state.phase === 'failed')
  if (failed?.phase === 'failed') return ['False', failed.reason, failed.message]
  if (states.some((state) => state.phase === 'open' && state.listed))
    return ['True', 'Listening', ['the handler tells of changes', ...remarks].join('; ')]
  return ['Unknown', 'Waiting', 'no list of devices has come yet']
}

/** The reasons of `Ready` for the failures of a session. */
const CAUSES: Readonly<Record<SessionFailure, string>> = {
  Unreachable: 'HandlerFailed',
  HandlerFailed: 'HandlerFailed',
  InternalError: 'InternalError',
  MissingProperty: 'SecretNotReadable',
  PropertyForbidden: 'SecretNotReadable',
  UnreadableProperty: 'SecretNotReadable',
  PropertyRefused: 'NoConsent',
}

/** The request is wrong, or a Secret is missing: an edit or an operator has to remove the cause. */
function wrongRequest({ endpoints }: DiscoveryStatus): Finding | undefined {
  for (const { state, answer } of endpoints) {
    if (state.phase === 'refused') return ['False', 'InvalidDetails', state.message]
    if (answer !== 'fresh' && state.phase === 'failed' && PROPERTY_FAILURES.has(state.reason))
      return ['False', CAUSES[state.reason], state.message]
  }
  return undefined
}

/**
 * Why the handler does not answer the present spec on this node. Devices that it left have a reason
 * of their own: an endpoint that is out of reach and left none is no longer expected here, nor one
 * that has never answered where another one does, such as the handler's next Pod.
 */
function unanswered(
  { handler, endpoints }: DiscoveryStatus,
  complete: boolean,
): Finding | undefined {
  // After the start of an agent, handlers register one after the other.
  if (endpoints.length === 0)
    return [complete ? 'False' : 'Unknown', NO_HANDLER, `${noHandler(handler)}; ${NEXT_STEP}`]
  const isAnswered = endpoints.some(({ answer }) => answer === 'fresh')
  let left: string | undefined
  for (const { state, answer } of endpoints) {
    if (answer === 'fresh' || state.phase !== 'failed') continue
    const isGone = state.reason === 'Unreachable' && (answer === 'old' || isAnswered)
    if (!isGone) return ['False', CAUSES[state.reason], state.message]
    left = state.message
  }
  if (endpoints.some(({ answer, state }) => answer !== 'fresh' && state.phase !== 'failed'))
    return ['Unknown', 'Waiting', 'not every handler has answered yet']
  if (left === undefined || isAnswered) return undefined
  return ['False', NO_HANDLER, `the handler ${handler} has left: ${left}`]
}

/** Whether the handler of the present spec has lost a device: after an edit, others go. */
function isAnyLost({ devices }: DeviceSet, { handler, endpoints }: DiscoveryStatus): boolean {
  const unasked = endpoints.filter(({ answer }) => answer === 'missing').map(({ uid }) => uid)
  return [...devices.values()].some(
    ({ healthy, endpoint }) =>
      !healthy && isUidOf(handler, endpoint) && !unasked.includes(endpoint),
  )
}

const NEXT_STEP = 'load it in the agent, or look at the Pod of the handler and its log'

function noHandler(handler: string): string {
  return `no handler ${handler} is loaded or has registered`
}

/** Of the devices that have a problem. */
interface DeviceProblems {
  readonly refused: number
  readonly firstRefused: DiscoveredDevice | undefined
  readonly unhealthy: number
}

/** A status is made again when an Instance changes: then the devices are as they were. */
const problems = new WeakMap<DeviceSet, DeviceProblems>()

/** The number of devices that are not offered. */
export function unhealthyIn(set: DeviceSet): number {
  return problemsOf(set).unhealthy
}

function problemsOf(set: DeviceSet): DeviceProblems {
  const before = problems.get(set)
  if (before !== undefined) return before
  const all = [...set.devices.values()]
  const refused = all.filter(({ refusal }) => refusal !== undefined)
  const found = {
    refused: refused.length,
    firstRefused: refused[0],
    unhealthy: all.filter(({ healthy }) => !healthy).length,
  }
  problems.set(set, found)
  return found
}

function ready({
  discovery,
  devices: set,
  collisions,
  refusals,
  taken,
  held,
  registrations,
  present,
  failure,
}: StatusInput): Finding {
  // The agent retries after a transient failure; a person has nothing to do.
  if (failure !== undefined && kindOf(failure) !== 'transient') {
    const reason = kindOf(failure) === 'bug' ? 'InternalError' : 'ReconcileFailed'
    return ['False', reason, messageOf(failure)]
  }
  const [clash] = taken
  if (clash !== undefined) {
    const message =
      `device ${JSON.stringify(clash.device)} has no Instance: the older Configuration ` +
      `${clash.owner} has its name, and resources are named without a namespace; choose ` +
      'another name for one of the two Configurations'
    return ['False', 'NameTaken', message]
  }
  const [collision] = collisions
  if (collision !== undefined) {
    const message =
      `devices ${JSON.stringify(collision.kept)} and ${JSON.stringify(collision.refused)} ` +
      'have the same digest; the second has no Instance'
    return ['False', 'DigestCollision', message]
  }
  const unregistered = notRegistered(registrations)
  if (unregistered !== undefined) return unregistered
  const { devices, complete, leftOut } = set
  const total = devices.size
  if (held.length > 0) return ['False', 'InstanceBeingDeleted', heldText(held, total)]
  const { refused, firstRefused: first, unhealthy } = problemsOf(set)
  if (first !== undefined) {
    const message =
      `${refused} of ${total} devices are not offered; device ` +
      `${JSON.stringify(first.device.id)}: ${first.refusal}`
    return ['False', 'DeviceRefused', message]
  }
  const wrong = wrongRequest(discovery)
  if (wrong !== undefined) return wrong
  const missing = unanswered(discovery, complete)
  if (unhealthy > 0 && (missing === undefined || isAnyLost(set, discovery))) {
    const why = missing === undefined ? '' : `: ${missing[2]}`
    const message = `${unhealthy} of ${total} devices are not vouched for by their handler${why}`
    return ['False', 'HandlerLost', message]
  }
  if (refusals.length > 0) return ['False', 'TooManyResources', tooManyNames(refusals)]
  if (leftOut !== undefined) return ['False', 'TooManyDevices', tooMany(total, leftOut)]
  if (missing !== undefined) return missing
  const reports = mergeReports(discovery.endpoints.map((endpoint) => endpoint.reports))
  const problemsText = deviceReportsText(reports, true)
  const leftOutText = deviceReportsText(reports, false)
  if (problemsText !== undefined) {
    const message = [`${total} devices`, problemsText, leftOutText]
      .flatMap((text) => text ?? [])
      .join('; ')
    return ['False', 'DeviceProblems', message]
  }
  if (present < total)
    return ['Unknown', 'Progressing', `${present} of ${total} devices have an Instance`]
  if (leftOutText !== undefined)
    return ['True', 'DevicesLeftOut', `${total} devices; ${leftOutText}`]
  if (total > 0) return ['True', 'AllDevicesServed', `${total} devices`]
  const why = reports === undefined ? [UNTOLD] : [NONE_SEEN, ...reasonsOf(reports)]
  return ['True', 'NoDevices', ['0 devices', ...why].join('; ')]
}

/** The same of the same problems in any order: each change is an Event. */
function notRegistered(problems: readonly RegistrationProblem[]): Finding | undefined {
  const refused = problems.filter(({ isRefused }) => isRefused)
  const [first, ...others] = (refused.length > 0 ? refused : problems).toSorted((a, b) =>
    a.resourceName < b.resourceName ? -1 : 1,
  )
  if (first === undefined) return undefined
  const more = others.length > 0 ? '; other resources too' : ''
  const reason = first.isRefused ? 'RegistrationRefused' : 'KubeletUnavailable'
  return ['False', reason, `${first.message}${more}`]
}

/** The reason for "0 devices" if the handler names no device. */
const NONE_SEEN = 'the handler saw none'
const UNTOLD = 'the log of the handler can say why'
const NO_REASON =
  'it gives no reason: check discoveryDetails, and run `akri discover` with them on the node'

function reasonsOf(reports: readonly DeviceReport[]): readonly string[] {
  const remarks = remarksOf(reports)
  return remarks.length > 0 ? remarks : [NO_REASON]
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

/** The most finalizers in a message. */
const SHOWN_FINALIZERS = 3

function heldText(held: readonly HeldInstance[], total: number): string {
  const [{ name = '', finalizers = [] } = {}] = held
  const shown = finalizers.slice(0, SHOWN_FINALIZERS).join(', ')
  const more = finalizers.length > SHOWN_FINALIZERS ? ', …' : ''
  return (
    `${held.length} of ${total} devices are not offered: their Instances are being deleted, and ` +
    `finalizers hold them; ${name}: ${shown}${more}`
  )
}

function tooMany(served: number, { devices, bound }: LeftOut): string {
  return `${devices} devices are left out and ${served} are served: ${BOUNDS[bound]}`
}

function tooManyNames(refusals: readonly NameRefusal[]): string {
  const cause = refusals.some(({ why }) => why === 'full')
    ? 'the Node has too many names of resources, or too many old names of this Configuration; ' +
      'an operator can remove old names, or raise --max-resource-names of the agent'
    : 'the Node had many new names of resources; more follow, as many an hour as ' +
      '--new-resource-names of the agent says'
  return `${refusals.length} resources are not offered: ${cause}`
}
