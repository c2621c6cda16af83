import { valueAt } from '@akrijs/runtime'
import { type DiscoveryHandler, readDetails } from '@akrijs/sdk/handler'
import type { Finding } from './configuration-problems.js'

/** The path of the details of a handler, which are a text with fields. */
export const DETAILS_PATH = 'spec.discoveryHandler.discoveryDetails'

export interface DetailsFinding extends Finding {
  /** The path in the details; empty for all of them. */
  readonly pathInDetails: string
}

/** The handler of a Configuration and its details, as texts; undefined if they are none. */
export function handlerOf(
  object: unknown,
): { readonly name: string; readonly details: string } | undefined {
  const name = valueAt(object, 'spec', 'discoveryHandler', 'name')
  const details = valueAt(object, 'spec', 'discoveryHandler', 'discoveryDetails') ?? ''
  return typeof name === 'string' && name !== '' && typeof details === 'string'
    ? { name, details }
    : undefined
}

/**
 * What the handler finds in the details: problems, or else warnings. Throws only the errors of the
 * handler.
 */
export async function detailsFindings(
  details: string,
  handler: Pick<DiscoveryHandler, 'details' | 'warnings'>,
): Promise<DetailsFinding[]> {
  const read = await readDetails(details, handler.details)
  const found = read.ok ? (handler.warnings?.(read.details) ?? []) : read.problems
  return found.map(({ path, message }) => ({
    level: read.ok ? 'warning' : 'problem',
    path: detailsPath(path),
    pathInDetails: path,
    message,
  }))
}

/** The warnings of {@link detailsFindings} as texts; none if the details have a problem. */
export async function detailsWarnings(
  details: string,
  handler: Pick<DiscoveryHandler, 'details' | 'warnings'>,
): Promise<string[]> {
  return (await detailsFindings(details, handler)).flatMap(({ level, pathInDetails, message }) =>
    level === 'warning' ? [pathInDetails === '' ? message : `${pathInDetails}: ${message}`] : [],
  )
}

function detailsPath(path: string): string {
  return path === '' || path.startsWith('[') ? DETAILS_PATH + path : `${DETAILS_PATH}.${path}`
}
