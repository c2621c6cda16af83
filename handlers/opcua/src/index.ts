import { type DiscoveryHandler, systemClock } from '@akrijs/sdk'
import type { OpcuaDetails } from './details.js'
import { defineOpcuaHandler, type OpcuaHandlerOptions } from './handler.js'

export {
  OpcuaProtocolError,
  OpcuaServiceError,
  OpcuaTimeoutError,
  OpcuaUnreachableError,
  OpcuaUrlError,
} from './errors.js'
export type { OpcuaDetails, OpcuaHandlerOptions }

/** The OPC UA handler with other times or another view of the network, for tests. */
export function createOpcuaHandler(
  options: Partial<OpcuaHandlerOptions> = {},
): DiscoveryHandler<OpcuaDetails> {
  return defineOpcuaHandler({ clock: systemClock, ...options })
}

export default createOpcuaHandler()
