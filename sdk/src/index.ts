export {
  AkriError,
  aborted,
  type Clock,
  defineError,
  type ErrorKind,
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
} from '@akrijs/runtime/handler'
export { every } from './every.js'
export { fitIntoList } from './fit-into-list.js'
export { Presence } from './presence.js'
export { serve } from './serve.js'
export type { HandlerServer, ServeOptions } from './serve-options.js'
