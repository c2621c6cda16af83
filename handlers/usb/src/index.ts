import type { DiscoveryHandler } from '@akrijs/sdk'
import { createUsbHandler } from './handler.js'

export { createUsbHandler, type UsbHandlerOptions } from './handler.js'

/** `discoveryDetails` as the handler gets them. The type is inferred: declarations have no zod. */
export type UsbDetails =
  ReturnType<typeof createUsbHandler> extends DiscoveryHandler<infer Details> ? Details : never

export default createUsbHandler()
