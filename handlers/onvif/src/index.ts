import type { DiscoveryHandler } from '@akrijs/sdk'
import { createOnvifHandler } from './handler.js'

export { createOnvifHandler, type OnvifHandlerOptions } from './handler.js'

/** `discoveryDetails` as the handler gets them. The type is inferred: declarations have no zod. */
export type OnvifDetails =
  ReturnType<typeof createOnvifHandler> extends DiscoveryHandler<infer Details> ? Details : never

export default createOnvifHandler()
