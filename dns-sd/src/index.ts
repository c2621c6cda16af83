export { type BrowseOptions, browse, FIRST_LIST_MS } from './browse.js'
export { MDNS_PORT } from './multicast-socket.js'
export {
  type EndOfService,
  type IncompleteService,
  SERVICE_TYPE,
  type Service,
  type ServiceList,
} from './service.js'
