export { type DiscoveryEvent, WsDiscovery, type WsDiscoveryOptions } from './client.js'
export { type Announcement, bareUuid, DISCOVERY_PORT } from './message.js'
export { interfaceOf } from './network-interfaces.js'
