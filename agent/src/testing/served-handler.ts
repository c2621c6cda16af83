import { silentLogger } from '@akrijs/runtime'
import { type HandlerServer, serve } from '@akrijs/sdk'
import {
  type Device,
  type DiscoverContext,
  type DiscoveryHandler,
  defineDiscoveryHandler,
} from '@akrijs/sdk/handler'
import { onTestFinished } from 'vitest'
import * as z from 'zod'

/** What a handler reports at the beginning of a discovery. */
type Discovered = (context: DiscoverContext<unknown>) => readonly Device[]

/** A handler with any details. */
export const handlerOf = (name: string, list: Discovered): DiscoveryHandler<unknown> =>
  defineDiscoveryHandler({
    ...{ name, shared: true, details: z.unknown() },
    async *discover(context) {
      yield list(context)
    },
  })

/** Serves such a handler as a process of its own does, until the test ends. */
export async function serveHandler(
  name: string,
  directory: string,
  list: Discovered,
): Promise<HandlerServer> {
  const options = { directory, log: silentLogger, environment: {} }
  const served = await serve(handlerOf(name, list), options)
  onTestFinished(() => served.close())
  return served
}
