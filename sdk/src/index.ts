export { aborted } from './aborted.js'
export { AllowedNetworks, type AllowedNetworksOptions, type Network, readNetwork } from './allowed-networks.js'
export type { Clock } from './clock.js'
export { systemClock } from './clock.js'
export { type CredentialKind, DeviceCredentials, type DeviceCredentialsOptions, type PasswordCredential } from './credentials.js'
export type { Device, DeviceList, DeviceSpec, Mount } from './device.js'
export {
  AkriError,
  type ErrorKind,
  HostNameError,
  InvalidDetailsError,
  InvalidDeviceListError,
  InvalidHandlerError,
  messageOf,
} from './errors.js'
export { every } from './every.js'
export { type FilterList, type FilterOptions, passesFilter } from './filter-list.js'
export { fitIntoList } from './fit-into-list.js'
export type { DiscoverContext, DiscoveryHandler, DiscoveryHandlerDefinition } from './handler.js'
export { defineDiscoveryHandler, HANDLER_CONTRACT, isDiscoveryHandler } from './handler.js'
export { HostNames, type HostNamesOptions, type ResolveHostName } from './host-names.js'
export { type Logger, type LogMethod, silentLogger } from './logger.js'
export {
  type InterfaceAddress,
  type InterfaceAddresses,
  type MachineInterface,
  type MachineInterfaceOptions,
  machineAddresses,
  machineInterfaces,
  machineNetworks,
} from './machine-interfaces.js'
export { Presence } from './presence.js'
export { DiscoveryProperties } from './properties.js'
export { serve } from './serve.js'
export type { HandlerServer, ServeOptions } from './serve-options.js'
export { withTimeLimit } from './time-limit.js'
