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
export {
  type Device,
  type DeviceList,
  type DeviceSpec,
  type DiscoverContext,
  type DiscoveryHandler,
  type DiscoveryHandlerDefinition,
  DiscoveryProperties,
  defineDiscoveryHandler,
  InvalidDetailsError,
  InvalidHandlerError,
  type Mount,
  type ReportedDevice,
} from '@akrijs/runtime/handler'
export { type DeviceMap, type DeviceMapOptions, deviceMap } from './device-map.js'
export { every } from './every.js'
export { fitIntoList } from './fit-into-list.js'
export { Presence } from './presence.js'
export { serve } from './serve.js'
export type { HandlerServer, ServeOptions } from './serve-options.js'
