/**
 * `@akrijs/sdk/network`: for handlers that find devices on a network. Any host of a network can
 * send forged answers; these parts bound what such a host can do.
 * @module network
 */
export { addressOfUrl, hostOf, isLinkLocal, plainAddress } from './addresses.js'
export {
  AllowedNetworks,
  type AllowedNetworksOptions,
  type Network,
  readNetwork,
  readNetworks,
} from './allowed-networks.js'
export { atLeastEvery } from './at-least-every.js'
export {
  type CredentialKind,
  DeviceCredentials,
  type DeviceCredentialsOptions,
  type PasswordCredential,
} from './credentials.js'
export { HostNameError } from './errors.js'
export { type FilterList, type FilterOptions, passesFilter } from './filter-list.js'
export { HostNames, type HostNamesOptions, type ResolveHostName } from './host-names.js'
export { inParallel } from './in-parallel.js'
export {
  type InterfaceAddress,
  type InterfaceAddresses,
  type MachineInterface,
  type MachineInterfaceOptions,
  machineAddresses,
  machineInterfaces,
  machineNetworks,
} from './machine-interfaces.js'
export type { MachineLink, MachineLinks } from './machine-links.js'
export {
  MulticastSearch,
  type MulticastSearchOptions,
  type SearchPlace,
} from './multicast-search.js'
export { ProblemLog } from './problem-log.js'
export {
  type RefreshEntry,
  RefreshSchedule,
  type RefreshScheduleOptions,
} from './refresh-schedule.js'
export { type SearchMulticastOptions, searchMulticast } from './search-multicast.js'
export { SourceLimit, type SourceLimitOptions } from './source-limit.js'
export { type Datagram, UdpSocket, type UdpSocketOptions } from './udp-socket.js'
