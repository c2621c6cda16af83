// For programs that host handlers: the agent and the CLI. A handler does not need this entry.

export { AGENT_SOCKET } from './agent-socket.js'
export {
  type CheckedDevice,
  checkInTurns,
  DeviceListCheck,
  withHash,
} from './device-list.js'
export { followDiscovery, openDiscovery, type ReportedList } from './discovery.js'
export { endWithStdin } from './end-with-stdin.js'
export {
  boundReports,
  deviceReports,
  leftOutSummary,
  problemsSummary,
  type ReportedDevices,
} from './reported-devices.js'
export {
  acceptReportsHeader,
  MAX_ANSWER_BYTES,
  propertiesFromWire,
  propertiesToWire,
  sendsReports,
  sharedFrom,
} from './wire.js'
