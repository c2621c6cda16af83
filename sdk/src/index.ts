/**
 * `@akrijs/sdk`: what a discovery handler needs.
 * @module sdk
 */
export {
  AkriError,
  aborted,
  type Clock,
  currentClock,
  defineError,
  type ErrorClass,
  type ErrorKind,
  inTurns,
  Latest,
  type Logger,
  messageOf,
  silentLogger,
  systemClock,
  withTimeLimit,
} from '@akrijs/runtime'
export { type DeviceMap, type DeviceMapOptions, deviceMap } from './device-map.js'
export { every } from './every.js'
export { fitIntoList } from './fit-into-list.js'
export type { DetailsProblem } from './handler/details.js'
export type { Device, DeviceList, DeviceLists, DeviceSpec, Mount } from './handler/device.js'
export { InvalidDetailsError, InvalidHandlerError } from './handler/errors.js'
export type { DeviceReport, HostContext } from './handler/handler.js'
export {
  type DiscoverContext,
  type DiscoveryHandler,
  type DiscoveryHandlerDefinition,
  defineDiscoveryHandler,
  type ReportedDevice,
} from './handler/handler.js'
export { DiscoveryProperties } from './handler/properties.js'
export { type IntervalBounds, interval } from './interval.js'
export { Presence } from './presence.js'
export { serve } from './serve.js'
export type { HandlerServer, ServeOptions } from './serve-options.js'
