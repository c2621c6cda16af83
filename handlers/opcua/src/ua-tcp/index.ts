export {
  CALL_MS,
  type CallOptions,
  type CallTimeouts,
  callService,
  type Target,
} from './client.js'
export {
  type ApplicationDescription,
  ApplicationType,
  type EndpointDescription,
  findServers,
  findServersAsRegistered,
  findServersOnNetwork,
  getEndpoints,
  type ServerOnNetwork,
} from './discovery-services.js'
export { UA_TCP_LIMITS, type UaTcpLimits } from './limits.js'
export { isUnsupported } from './status-code.js'
