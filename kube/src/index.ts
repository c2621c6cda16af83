export {
  type ConfigurationManifest,
  MAX_CAPACITY,
  type ParsedConfiguration,
  type Problem,
  parseConfiguration,
} from './configuration-schema.js'
export * from './manifest.js'
export * from './names.js'
export * from './reconcile-queue.js'
export * from './types.js'
