import { DETAILS_PATH, detailsFindings, handlerOf, type Problem } from '@akrijs/api'
import { type Clock, messageOf, nearest, valueAt } from '@akrijs/runtime'
import type { DiscoveryHandler } from '@akrijs/sdk/handler'
import { DetailsUncheckedError } from '../errors.js'

/**
 * The time limit of a handler's schema, in milliseconds: API servers wait for at most ten seconds.
 */
const SCHEMA_LIMIT_MS = 2000
/**
 * The longest details that are checked here, in bytes: YAML of this size is read in 100 ms. Agents
 * check longer details themselves, and show their problems in the condition of the Configuration.
 */
const MAX_CHECKED = 48 * 1024
/** The handlers of the webhook, by their names in Configurations. */
export type Handlers = ReadonlyMap<string, Pick<DiscoveryHandler, 'details'>>

/**
 * The problems that the handler finds in the `discoveryDetails`. Details of unknown handlers are
 * not checked. Warnings of handlers are left to `akri validate`: they are about valid details.
 * @throws DetailsUncheckedError if the schema throws or takes too long
 */
export async function detailsProblems(
  object: unknown,
  handlers: Handlers,
  clock: Clock,
): Promise<Problem[]> {
  const { name = '', details = '' } = handlerOf(object) ?? {}
  const handler = handlers.get(name)
  if (handler === undefined || isTooLong(details)) return []
  const limit = new AbortController()
  try {
    const found = await Promise.race([
      detailsFindings(details, { details: handler.details }),
      clock.sleep(SCHEMA_LIMIT_MS, limit.signal).then(() => undefined),
    ])
    if (found === undefined)
      throw new DetailsUncheckedError(`it did not answer within ${SCHEMA_LIMIT_MS} ms`)
    return found
      .filter(({ level }) => level === 'problem')
      .map(({ path, message }) => ({ path, message }))
  } catch (error) {
    throw new DetailsUncheckedError(`the schema of the handler ${name}: ${messageOf(error)}`, {
      cause: error,
    })
  } finally {
    limit.abort()
  }
}

/**
 * Agents compare names with upper and lower case. A similar name may be a mistake, or the name of
 * another handler.
 */
export function handlerWarnings(object: unknown, handlers: Handlers): string[] {
  const name = valueAt(object, 'spec', 'discoveryHandler', 'name')
  if (typeof name !== 'string') return []
  const details = valueAt(object, 'spec', 'discoveryHandler', 'discoveryDetails')
  if (handlers.has(name))
    return typeof details === 'string' && isTooLong(details)
      ? [
          `${DETAILS_PATH}: more than ${MAX_CHECKED} bytes are not checked here; see the ` +
            'condition Discovering',
        ]
      : []
  const near = nearest(name, [...handlers.keys()], 2)
  return near === undefined
    ? []
    : [
        `spec.discoveryHandler.name: there is also a handler ${near}; this one is another, ` +
          'and its discoveryDetails are not checked',
      ]
}

function isTooLong(details: string): boolean {
  return Buffer.byteLength(details) > MAX_CHECKED
}
