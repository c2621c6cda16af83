export { encodeQuery } from './dns-encoder.js'
export { type DnsName, nameKey } from './dns-message.js'
export { MessageReader } from './message-reader.js'
export {
  type Family,
  MDNS_GROUPS,
  MDNS_PORT,
  openMulticastSocket,
  socketInterface,
} from './multicast-socket.js'
export { type LocalInterface, localInterfaces } from './networks.js'
export { QuestionSchedule } from './question-schedule.js'
export { type ResolvedService, ServiceCache, type UnreachableService } from './service-cache.js'
