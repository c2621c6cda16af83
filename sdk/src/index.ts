export type { Clock } from './clock.js'
export { systemClock } from './clock.js'
export type { Device, DeviceList, DeviceSpec, Mount } from './device.js'
export {
  AkriError,
  type ErrorKind,
  InvalidDetailsError,
  InvalidDeviceListError,
  InvalidHandlerError,
  messageOf,
} from './errors.js'
export type { DiscoverContext, DiscoveryHandler, DiscoveryHandlerDefinition } from './handler.js'
export { defineDiscoveryHandler, HANDLER_CONTRACT, isDiscoveryHandler } from './handler.js'
export { type Logger, type LogMethod, silentLogger } from './logger.js'
export { DiscoveryProperties } from './properties.js'
