// `@akrijs/sdk/handler`: the contract of a discovery handler and its host.
export { parseDetails, readDetails, ruleHint } from './details.js'
export type { Device, DeviceList, DeviceSpec, Mount } from './device.js'
export { HandlerPackageError, InvalidDetailsError, InvalidHandlerError } from './errors.js'
export {
  type DeviceReport,
  type DiscoverContext,
  type DiscoveryHandler,
  type DiscoveryHandlerDefinition,
  defineDiscoveryHandler,
  isDiscoveryHandler,
  isHandlerName,
  type ReportedDevice,
} from './handler.js'
export { importHandler } from './handler-module.js'
export {
  findHandlerPackage,
  findHandlerPackages,
  type HandlerPackage,
  MODULE_LOAD_MS,
  packageDirectory,
  packageModule,
  type ReadHandlerName,
} from './handler-package.js'
export { DiscoveryProperties } from './properties.js'
