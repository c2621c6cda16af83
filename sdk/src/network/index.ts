// `@akrijs/sdk/network`: for handlers that find devices on a network.
export * from './allowed-networks.js'
export * from './credentials.js'
export * from './errors.js'
export * from './filter-list.js'
export * from './host-names.js'
export * from './machine-interfaces.js'
