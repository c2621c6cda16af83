// For programs that host handlers: the agent, `serve`, the CLI. Authors of handlers need nothing of it.
export { aborted } from './aborted.js'
export { Backoff, type BackoffOptions, backoff } from './backoff.js'
export { createLogger } from './create-logger.js'
export { type DetailsProblem, type ReadDetails, readDetails } from './details.js'
export { checkDeviceList, equalDeviceLists, MAX_LIST_BYTES } from './device-list.js'
export { type DiscoveryRequest, HandlerFailedError, openDiscovery } from './discovery.js'
export { HandlerPackageError } from './errors.js'
export { findHandlerPackage, findHandlerPackages, type HandlerPackage, packageDirectory } from './handler-package.js'
export { type HealthServer, type HealthServerOptions, serveHealth } from './health-server.js'
export { Latest } from './latest.js'
export { type Program, runProgram } from './program.js'
export {
  directoryPath,
  handlerSpecifier,
  handlersOption,
  isNodeName,
  kubeconfigOption,
  logLevelOption,
  metricsPortOption,
  nodeName,
  unsetEmpty,
  wholeNumber,
  words,
} from './program-options.js'
export {
  AGENT_SOCKET,
  absent,
  checkSocketPath,
  isServed,
  MAX_SOCKET_PATH,
  makeRoomForSocket,
  SocketUnusableError,
} from './socket-file.js'
export { splitLines } from './split-lines.js'
export { listFromWire, propertiesFromWire, propertiesToWire, responseToWire } from './wire.js'
