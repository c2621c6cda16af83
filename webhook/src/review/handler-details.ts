import type { Problem } from '@akrijs/api'
import { type Clock, messageOf, nearest } from '@akrijs/runtime'
import { type DiscoveryHandler, readDetails } from '@akrijs/runtime/handler'
import { DetailsUncheckedError } from '../errors.js'
import { at } from '../json.js'

/** How long a handler's schema may take, in milliseconds: API servers wait for ten seconds at most. */
const PATIENCE_MS = 2000
const PATH = 'spec.discoveryHandler.discoveryDetails'

/** Handlers that the webhook knows, by the names that Configurations use. */
export type Handlers = ReadonlyMap<string, Pick<DiscoveryHandler, 'details'>>

/**
 * What a handler's own schema says of the `discoveryDetails` of a Configuration. Those of other handlers are not for us to judge.
 * @throws DetailsUncheckedError where the schema throws, or takes too long
 */
export async function detailsProblems(
  object: unknown,
  handlers: Handlers,
  clock: Clock,
): Promise<Problem[]> {
  const name = at(object, 'spec', 'discoveryHandler', 'name')
  const handler = typeof name === 'string' ? handlers.get(name) : undefined
  const details = at(object, 'spec', 'discoveryHandler', 'discoveryDetails') ?? ''
  if (handler === undefined || typeof details !== 'string') return []
  const patience = new AbortController()
  try {
    const read = await Promise.race([
      readDetails(details, handler.details),
      clock.sleep(PATIENCE_MS, patience.signal).then(() => undefined),
    ])
    if (read === undefined)
      throw new DetailsUncheckedError(`it gave no answer within ${PATIENCE_MS} ms`)
    if (read.ok) return []
    return read.problems.map(({ path, message }) => ({
      path: path === '' ? PATH : `${PATH}${path.startsWith('[') ? '' : '.'}${path}`,
      message,
    }))
  } catch (error) {
    throw new DetailsUncheckedError(`the schema of the handler ${name}: ${messageOf(error)}`, {
      cause: error,
    })
  } finally {
    patience.abort()
  }
}

/** Agents tell upper from lower case. A name that is nearly one that is known may be meant, or be another handler's. */
export function handlerWarnings(object: unknown, handlers: Handlers): string[] {
  const name = at(object, 'spec', 'discoveryHandler', 'name')
  if (typeof name !== 'string' || handlers.has(name)) return []
  const near = nearest(name, [...handlers.keys()], 2)
  return near === undefined
    ? []
    : [
        `spec.discoveryHandler.name: there is also a handler ${near}; this one is another, and its discoveryDetails are not checked`,
      ]
}
