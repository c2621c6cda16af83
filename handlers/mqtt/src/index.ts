import type { DiscoveryHandler } from '@akrijs/sdk'
import { createMqttHandler } from './handler.js'

export { createMqttHandler, type MqttHandlerOptions } from './handler.js'

/** `discoveryDetails` as the handler gets them. The type is inferred: declarations have no zod. */
export type MqttDetails =
  ReturnType<typeof createMqttHandler> extends DiscoveryHandler<infer Details> ? Details : never

export default createMqttHandler()
