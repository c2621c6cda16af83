// For programs that host handlers: the agent, `serve`, the CLI. Authors of handlers need nothing of it.
export { checkDeviceList, equalDeviceLists, MAX_LIST_BYTES } from './device-list.js'
export { type DiscoveryRequest, HandlerFailedError, openDiscovery } from './discovery.js'
export { AGENT_SOCKET } from './registration.js'
export { listFromWire, propertiesFromWire, propertiesToWire, responseToWire } from './wire.js'
