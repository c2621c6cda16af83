import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { Logger } from '../logger.js'
import type { DeviceList } from './device.js'
import { InvalidHandlerError } from './errors.js'
import type { DiscoveryProperties } from './properties.js'

/** The version of what a handler and its host expect of each other. Raised when a handler must change to go on working. */
export const HANDLER_CONTRACT = 1

const MARK = Symbol.for('akri.discoveryHandler')

/** What `discover` is given. */
export interface DiscoverContext<Details> {
  /** The Configuration's `discoveryDetails`, parsed and validated. */
  readonly details: Details
  /** The Configuration's `discoveryProperties` with their Secrets and ConfigMaps resolved. Never log them. */
  readonly properties: DiscoveryProperties
  /** Aborted when nobody wants the answer any more. */
  readonly signal: AbortSignal
  readonly log: Logger
}

export interface DiscoveryHandlerDefinition<Details> {
  /** Equals `discoveryHandler.name` in Configurations: a letter, then letters, digits, `-`, `_` or `.`; at most 63 characters. */
  readonly name: string
  /** True where several nodes can see the same device (a camera on the network), false where only one can (a USB stick). */
  readonly shared: boolean
  /** The schema of `discoveryDetails`: any Standard Schema (zod, valibot, arktype, …). */
  readonly details: StandardSchemaV1<unknown, Details>
  /**
   * Finds devices. Each list that it yields is complete and takes the place of the one before; equal lists are not sent
   * twice. When it returns, its last list stays; when it throws, the stream ends with an error that the agent shows and
   * retries with a back-off. Called once for each Configuration.
   */
  discover(context: DiscoverContext<Details>): AsyncIterable<DeviceList>
}

/** A handler as {@link defineDiscoveryHandler} makes it. */
export interface DiscoveryHandler<Details = unknown> extends DiscoveryHandlerDefinition<Details> {
  readonly contract: typeof HANDLER_CONTRACT
}

/**
 * Defines a discovery handler. Export the result as the default of a module: the agent, `akri-handler`, {@link serve} and
 * the simulated agent of `@akrijs/sdk/testing` all take it as it is.
 *
 * @throws InvalidHandlerError naming the member that does not fit.
 */
export function defineDiscoveryHandler<Details>(
  definition: DiscoveryHandlerDefinition<Details>,
): DiscoveryHandler<Details> {
  const { name, shared, details, discover } = definition
  if (typeof name !== 'string' || !/^[A-Za-z][A-Za-z0-9._-]{0,62}$/.test(name)) {
    throw new InvalidHandlerError(
      `name: ${JSON.stringify(name)} is not a handler name; it starts with a letter and has letters, digits, '-', '_' and '.', 63 characters at most`,
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
  return Object.freeze({
    name,
    shared,
    details,
    discover: (context: DiscoverContext<Details>) => definition.discover(context),
    contract: HANDLER_CONTRACT,
    [MARK]: true,
  })
}

/** Whether `value` came from {@link defineDiscoveryHandler}, of this or another installed copy of the package. */
export function isDiscoveryHandler(value: unknown): value is DiscoveryHandler {
  return typeof value === 'object' && value !== null && MARK in value
}
