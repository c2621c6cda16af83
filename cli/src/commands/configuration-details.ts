import { type ConfigurationSpec, type DetailsFinding, detailsFindings } from '@akrijs/api'
import type { DiscoveryHandler } from '@akrijs/sdk/handler'
import { BUILT_IN_HANDLERS, HANDLERS_FROM } from '../built-in-handlers.js'
import { findHandler } from '../handler-source.js'

/** Checks the details of a Configuration by its built-in handler, if it has one. */
export async function checkDetails(
  {
    discoveryHandler: { name, discoveryDetails = '' },
  }: Pick<ConfigurationSpec, 'discoveryHandler'>,
  load: (name: string) => Promise<DiscoveryHandler | undefined> = loadBuiltIn,
): Promise<DetailsFinding[]> {
  const handler = await load(name)
  return handler === undefined ? [] : detailsFindings(discoveryDetails, handler)
}

export async function loadBuiltIn(name: string): Promise<DiscoveryHandler | undefined> {
  if (!Object.hasOwn(BUILT_IN_HANDLERS, name)) return undefined
  return (await findHandler(name, HANDLERS_FROM)).load()
}
