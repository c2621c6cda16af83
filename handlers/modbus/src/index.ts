import type { DiscoveryHandler } from '@akrijs/sdk'
import { createModbusHandler } from './handler.js'

export { createModbusHandler } from './handler.js'

/** `discoveryDetails` as the handler gets them. The type is inferred: declarations have no zod. */
export type ModbusDetails =
  ReturnType<typeof createModbusHandler> extends DiscoveryHandler<infer Details> ? Details : never

export default createModbusHandler()
