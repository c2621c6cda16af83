import type { DiscoveryHandler } from '@akrijs/sdk'
import { createSnmpHandler } from './handler.js'

export { createSnmpHandler, type SnmpHandlerOptions } from './handler.js'

/** `discoveryDetails` as the handler gets them. The type is inferred: declarations have no zod. */
export type SnmpDetails =
  ReturnType<typeof createSnmpHandler> extends DiscoveryHandler<infer Details> ? Details : never

export default createSnmpHandler()
