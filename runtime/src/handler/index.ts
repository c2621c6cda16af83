// `@akrijs/runtime/handler`: the contract of a discovery handler and its host.
export * from './details.js'
export * from './device.js'
export * from './errors.js'
export * from './handler.js'
export * from './handler-package.js'
export * from './properties.js'
