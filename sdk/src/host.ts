// For programs that host handlers: the agent and the CLI. A handler does not need this entry.
export { checkDeviceList, DeviceListCheck, MAX_LIST_BYTES } from './device-list.js'
export { openDiscovery } from './discovery.js'
export { AGENT_SOCKET } from './registration.js'
export { propertiesFromWire, propertiesToWire, sharedFrom } from './wire.js'
