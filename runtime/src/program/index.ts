// `@akrijs/runtime/program`: what a program starts with.
export * from './create-logger.js'
export * from './health-server.js'
export * from './option-schema.js'
export * from './program.js'
export * from './program-context.js'
export * from './program-options.js'
export * from './reconcile-metrics.js'
export { print, redirectOutput } from './stray-output.js'
