// For programs that host handlers: the agent, `serve`, the CLI. Authors of handlers need nothing of it.
export { Backoff, type BackoffOptions, backoff } from './backoff.js'
export { type Clock, systemClock } from './clock.js'
export { checkDeviceList, equalDeviceLists, MAX_LIST_BYTES } from './device-list.js'
export { type DiscoveryRequest, HandlerFailedError, openDiscovery } from './discovery.js'
export { Latest } from './latest.js'
export { listFromWire, propertiesFromWire, propertiesToWire, responseToWire } from './wire.js'
