import type { Logger } from '@akrijs/runtime'
import { fieldOf, isRecord, nearest, shorten } from '@akrijs/runtime'
import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { DetailsProblem } from './details.js'
import type { DeviceList } from './device.js'
import { InvalidHandlerError } from './errors.js'
import type { DiscoveryProperties } from './properties.js'

/**
 * The version of the contract between a handler and its host. A higher version means that handlers
 * must change.
 */
export const HANDLER_CONTRACT = 1

const MARK = Symbol.for('akri.discoveryHandler')

/** A device with what its handler tells people about it: why it is left out, or its problem. */
export interface ReportedDevice {
  /** Identifies the device for people, such as its address or its path. */
  readonly id: string
  /** A few words that are the same for all devices with this reason, such as `HTTP status 401`. */
  readonly reason: string
  /** What concerns this device only. @default nothing */
  readonly detail?: string
}

/** The devices of one list with the same reason. */
export interface DeviceReport {
  /** Why the list leaves the devices out, or what is wrong with them. */
  readonly reason: string
  /** 0 for a remark on the discovery as a whole. */
  readonly count: number
  /** The ids of some of these devices. */
  readonly ids: readonly string[]
  /** Whether the list has the devices, with a problem. Otherwise the list leaves them out. */
  readonly listed: boolean
}

/** The argument of `discover`. */
export interface DiscoverContext<Details> {
  /** The Configuration's `discoveryDetails`, parsed and validated. */
  readonly details: Details
  /**
   * The Configuration's `discoveryProperties` with their Secrets and ConfigMaps resolved. Never log
   * them.
   */
  readonly properties: DiscoveryProperties
  /** Aborted when the host needs no more lists. */
  readonly signal: AbortSignal
  /** The log of the agent or of `akri-handler`, with the name of the handler. */
  readonly log: Logger
  /**
   * Tells people why the next list does not have a device that the handler saw. Report all such
   * devices before each list: the reports before the list before it are forgotten. The host limits
   * their number.
   */
  leaveOut(id: string, reason: string, detail?: string): void
  /**
   * Tells people about a problem of a device that the next list has, such as a credential that the
   * device refuses. The agent then does not call the Configuration ready. As for {@link leaveOut},
   * report all problems before each list.
   *
   * @param id the id of the device in the list
   */
  reportProblem(id: string, reason: string, detail?: string): void
  /**
   * Tells people about the discovery as a whole, such as events that do not arrive. As for
   * {@link leaveOut}, repeat each remark before each list for which it holds.
   */
  remark(text: string): void
}

/** The argument of {@link defineDiscoveryHandler}. */
export interface DiscoveryHandlerDefinition<Details> {
  /**
   * The `discoveryHandler.name` of Configurations: a letter, then letters, digits, `-`, `_` or `.`;
   * at most 63 characters.
   */
  readonly name: string
  /**
   * True if several nodes can see the same device (a camera on the network), false if only one node
   * can (a USB stick).
   */
  readonly shared: boolean
  /**
   * The schema of `discoveryDetails`: any Standard Schema (zod, valibot, arktype, …).
   * @default no details: a Configuration that has some is refused
   */
  readonly details?: StandardSchemaV1<unknown, Details>
  /**
   * Finds devices. Each yielded list is complete and replaces the list before; the host sends no
   * list twice in a row. When the generator returns, its last list stays. When the generator
   * throws, the agent shows the error, and calls `discover` again with a back-off. Called once for
   * each Configuration.
   */
  discover(context: DiscoverContext<Details>): AsyncIterable<DeviceList>
  /** What may be a mistake in valid details, for `akri validate`. @default nothing */
  warnings?(details: Details): readonly DetailsProblem[]
}

/** The result of {@link defineDiscoveryHandler}. */
export interface DiscoveryHandler<Details = unknown> extends DiscoveryHandlerDefinition<Details> {
  readonly details: StandardSchemaV1<unknown, Details>
  /** The version of the contract between the handler and its host. */
  readonly contract: typeof HANDLER_CONTRACT
  discover(context: HostContext<Details>): AsyncIterable<DeviceList>
}

/** What a host gives: an older host takes no reports of devices. */
export type HostContext<Details> = Omit<
  DiscoverContext<Details>,
  'leaveOut' | 'reportProblem' | 'remark'
> &
  Partial<DiscoverContext<Details>>

/**
 * Defines a discovery handler. Export the result as the default of a module: the agent,
 * `akri-handler` and `serve` use this export.
 *
 * @throws InvalidHandlerError with the name of the wrong member
 *
 * @example
 * export default defineDiscoveryHandler({
 *   name: 'http-sensor',
 *   shared: true,
 *   details: z.strictObject({ url: z.url() }),
 *   async *discover({ details, signal }) {
 *     for await (const _ of every('10s', { signal })) yield await listSensors(details.url, signal)
 *   },
 * })
 */
export function defineDiscoveryHandler<Details>(
  definition: DiscoveryHandlerDefinition<Details>,
): DiscoveryHandler<Details> {
  // At run time a handler is JavaScript.
  const value: unknown = definition
  if (!isRecord(value))
    throw new InvalidHandlerError(
      `a handler is an object with ${MEMBERS.slice(0, -1).join(', ')}; this is ${shorten(value)}`,
    )
  const { name, shared, details = NO_DETAILS, discover, warnings } = definition
  refuseOtherMembers(definition)
  if (!isHandlerName(name)) {
    throw new InvalidHandlerError(
      `name: ${shorten(name, MAX_SHOWN)} is not a handler name; it starts with a letter and has ` +
        "letters, digits, '-', '_' and '.', 63 characters at most",
    )
  }
  if (typeof shared !== 'boolean')
    throw new InvalidHandlerError(
      `handler ${name}: shared is ${String(shared)}; it must be true or false`,
    )
  if (typeof details?.['~standard']?.validate !== 'function') {
    throw new InvalidHandlerError(
      `handler ${name}: details is not a Standard Schema (https://standardschema.dev)`,
    )
  }
  if (typeof discover !== 'function')
    throw new InvalidHandlerError(`handler ${name}: discover is not a function`)
  if (warnings !== undefined && typeof warnings !== 'function')
    throw new InvalidHandlerError(`handler ${name}: warnings is not a function`)
  return Object.freeze({
    name,
    shared,
    details,
    discover: (context: HostContext<Details>) =>
      checkLists(name, definition.discover({ ...IGNORING, ...context })),
    contract: HANDLER_CONTRACT,
    ...(warnings && {
      warnings: (parsed: Details) => checkWarnings(name, definition.warnings?.(parsed) ?? []),
    }),
    [MARK]: true,
  })
}

/** Of a handler without details. A handler that names no type for them gets any. */
// biome-ignore lint/suspicious/noExplicitAny: its `details` are `{}`
const NO_DETAILS: StandardSchemaV1<unknown, any> = {
  '~standard': {
    version: 1,
    vendor: 'akri',
    validate: (value) =>
      isRecord(value) && Object.keys(value).length === 0
        ? { value: {} }
        : { issues: [{ message: 'the handler has no details; write none, or {}' }] },
  },
}

/** The longest name that a message shows, in characters. */
const MAX_SHOWN = 200
const MEMBERS = ['name', 'shared', 'details', 'discover', 'warnings']

/** A misspelt member would be a handler without its details or its warnings. */
function refuseOtherMembers(definition: { readonly name: unknown }): void {
  const other = Object.entries(definition).find(
    // A handler can be defined from another one, which has a contract.
    ([member, value]) => ![...MEMBERS, 'contract'].includes(member) && value !== undefined,
  )?.[0]
  if (other === undefined) return
  const { name } = definition
  const where = isHandlerName(name) ? `handler ${name}: ` : ''
  const meant = nearest(other, MEMBERS)
  const right = meant === undefined ? `there are ${MEMBERS.join(', ')}` : `did you mean ${meant}?`
  throw new InvalidHandlerError(
    `${where}a handler has no member ${JSON.stringify(other)}; ${right}`,
  )
}

/** Whether a value can be the name of a handler. */
export function isHandlerName(value: unknown): value is string {
  return typeof value === 'string' && /^[A-Za-z][A-Za-z0-9._-]{0,62}$/.test(value)
}

/** At run time a handler is JavaScript: its `discover` may be no generator. */
function checkLists(
  name: string,
  lists: AsyncIterable<DeviceList>,
): AsyncGenerator<DeviceList, void, void> {
  const iterable: object = Object(lists)
  const isIterable = Symbol.asyncIterator in iterable || Symbol.iterator in iterable
  if (isIterable && typeof lists === 'object' && !Array.isArray(lists))
    return yieldedLists(name, lists)
  // Its failure would end the process.
  if (lists instanceof Promise) lists.catch(() => undefined)
  throw new InvalidHandlerError(
    `handler ${name}: discover returned ${typeText(lists)}; write 'async *discover(context)' ` +
      "with a '*', and 'yield' each list of devices",
  )
}

/** A list that a generator returns, and does not yield, would be lost. */
async function* yieldedLists(
  name: string,
  lists: AsyncIterable<DeviceList, unknown>,
): AsyncGenerator<DeviceList, void, void> {
  const returned = yield* lists
  // Not the results of `return Promise.all(closing)`.
  if (Array.isArray(returned) && returned.some(isRecord))
    throw new InvalidHandlerError(
      `handler ${name}: discover returned its list at the end; write 'yield' before each list`,
    )
}

function typeText(value: unknown): string {
  if (Array.isArray(value)) return 'an array'
  return value instanceof Promise ? 'a promise' : `a value of type ${typeof value}`
}

/** The same for its `warnings`. */
function checkWarnings<Warnings>(name: string, warnings: Warnings): Warnings {
  if (warnings instanceof Promise) warnings.catch(() => undefined)
  const refuse = (what: string): never => {
    throw new InvalidHandlerError(
      `handler ${name}: warnings ${what}; it returns an array of { path, message }, at once`,
    )
  }
  if (!Array.isArray(warnings)) return refuse(`returned ${typeText(warnings)}`)
  const texts = (warning: unknown) => [fieldOf(warning, 'path'), fieldOf(warning, 'message')]
  const wrong = warnings.findIndex((each) => texts(each).some((text) => typeof text !== 'string'))
  return wrong === -1 ? warnings : refuse(`has no texts path and message in item ${wrong}`)
}

const IGNORING: Pick<DiscoverContext<unknown>, 'leaveOut' | 'reportProblem' | 'remark'> = {
  leaveOut() {},
  reportProblem() {},
  remark() {},
}

/**
 * Whether a value comes from {@link defineDiscoveryHandler}, of this or another installed copy of
 * the package.
 */
export function isDiscoveryHandler(value: unknown): value is DiscoveryHandler {
  return typeof value === 'object' && value !== null && MARK in value
}
