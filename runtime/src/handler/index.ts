// `@akrijs/runtime/handler`: the contract of a discovery handler and its host.
export { parseDetails, readDetails } from './details.js'
export type { Device, DeviceList, DeviceSpec, Mount } from './device.js'
export { HandlerPackageError, InvalidDetailsError, InvalidHandlerError } from './errors.js'
export {
  type DiscoverContext,
  type DiscoveryHandler,
  type DiscoveryHandlerDefinition,
  defineDiscoveryHandler,
  isDiscoveryHandler,
} from './handler.js'
export {
  findHandlerPackage,
  findHandlerPackages,
  type HandlerPackage,
  packageDirectory,
} from './handler-package.js'
export { DiscoveryProperties } from './properties.js'
