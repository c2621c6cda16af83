import type { DiscoveryHandler } from '@akrijs/sdk'
import { createUdevHandler } from './handler.js'

export { UdevRuleError } from './errors.js'
export type { UdevHandlerOptions } from './handler.js'
export { createUdevHandler }

/** `discoveryDetails` as the handler gets them. The type is inferred: declarations have no zod. */
export type UdevDetails =
  ReturnType<typeof createUdevHandler> extends DiscoveryHandler<infer Details> ? Details : never

export default createUdevHandler()
