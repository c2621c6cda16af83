import { createOpcuaHandler } from './handler.js'

export type { OpcuaDetails } from './details.js'
export {
  OpcuaProtocolError,
  OpcuaServiceError,
  OpcuaTimeoutError,
  OpcuaUnreachableError,
  OpcuaUrlError,
} from './errors.js'
export { createOpcuaHandler, type OpcuaHandlerOptions } from './handler.js'

export default createOpcuaHandler()
