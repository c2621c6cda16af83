import type { DiscoveryHandler } from '@akrijs/sdk'
import { createOpcuaHandler } from './handler.js'

export {
  OpcuaProtocolError,
  OpcuaServiceError,
  OpcuaTimeoutError,
  OpcuaUnreachableError,
  OpcuaUrlError,
} from './errors.js'
export { createOpcuaHandler, type OpcuaHandlerOptions } from './handler.js'

/** `discoveryDetails` as the handler gets them. The type is inferred: declarations have no zod. */
export type OpcuaDetails =
  ReturnType<typeof createOpcuaHandler> extends DiscoveryHandler<infer Details> ? Details : never

export default createOpcuaHandler()
