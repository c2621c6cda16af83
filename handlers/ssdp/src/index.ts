import type { DiscoveryHandler } from '@akrijs/sdk'
import { createSsdpHandler } from './handler.js'

export { createSsdpHandler, type SsdpHandlerOptions } from './handler.js'

/** `discoveryDetails` as the handler gets them. The type is inferred: declarations have no zod. */
export type SsdpDetails =
  ReturnType<typeof createSsdpHandler> extends DiscoveryHandler<infer Details> ? Details : never

export default createSsdpHandler()
