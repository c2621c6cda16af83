import type { DiscoveryHandler } from '@akrijs/sdk'
import { createMdnsHandler } from './handler.js'

export { createMdnsHandler, type MdnsHandlerOptions } from './handler.js'

/** `discoveryDetails` as the handler gets them. The type is inferred: declarations have no zod. */
export type MdnsDetails =
  ReturnType<typeof createMdnsHandler> extends DiscoveryHandler<infer Details> ? Details : never

export default createMdnsHandler()
