import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { Logger } from '../logger.js'
import type { DeviceList } from './device.js'
import { InvalidHandlerError } from './errors.js'
import type { DiscoveryProperties } from './properties.js'

/**
 * The version of the contract between a handler and its host. A higher version means that handlers
 * must change.
 */
export const HANDLER_CONTRACT = 1

const MARK = Symbol.for('akri.discoveryHandler')

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
  readonly log: Logger
}

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
  /** The schema of `discoveryDetails`: any Standard Schema (zod, valibot, arktype, …). */
  readonly details: StandardSchemaV1<unknown, Details>
  /**
   * Finds devices. Each yielded list is complete and replaces the list before; the host sends no
   * list twice in a row. When the generator returns, its last list stays. When the generator
   * throws, the agent shows the error, and calls `discover` again with a back-off. Called once for
   * each Configuration.
   */
  discover(context: DiscoverContext<Details>): AsyncIterable<DeviceList>
}

/** The result of {@link defineDiscoveryHandler}. */
export interface DiscoveryHandler<Details = unknown> extends DiscoveryHandlerDefinition<Details> {
  readonly contract: typeof HANDLER_CONTRACT
}

/**
 * Defines a discovery handler. Export the result as the default of a module: the agent,
 * `akri-handler` and `serve` use this export.
 *
 * @throws InvalidHandlerError with the name of the wrong member
 */
export function defineDiscoveryHandler<Details>(
  definition: DiscoveryHandlerDefinition<Details>,
): DiscoveryHandler<Details> {
  const { name, shared, details, discover } = definition
  if (typeof name !== 'string' || !/^[A-Za-z][A-Za-z0-9._-]{0,62}$/.test(name)) {
    throw new InvalidHandlerError(
      `name: ${JSON.stringify(name)} is not a handler name; it starts with a letter and has ` +
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
  return Object.freeze({
    name,
    shared,
    details,
    discover: (context: DiscoverContext<Details>) => definition.discover(context),
    contract: HANDLER_CONTRACT,
    [MARK]: true,
  })
}

/**
 * Whether a value comes from {@link defineDiscoveryHandler}, of this or another installed copy of
 * the package.
 */
export function isDiscoveryHandler(value: unknown): value is DiscoveryHandler {
  return typeof value === 'object' && value !== null && MARK in value
}
