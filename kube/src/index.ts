export * from './api-client.js'
export * from './api-objects.js'
export type { ApiClock } from './clock.js'
export * from './cluster-access.js'
export {
  type ConfigurationManifest,
  type ParsedConfiguration,
  type Problem,
  parseConfiguration,
  shorten,
} from './configuration-schema.js'
export * from './errors.js'
export * from './event-recorder.js'
export { excess } from './excess.js'
export * from './instance-patches.js'
export { isRecord } from './json.js'
export * from './kinds.js'
export * from './leader-election.js'
export * from './manifest.js'
export * from './names.js'
export { nearest } from './nearest.js'
export * from './reconcile-queue.js'
export * from './reflector.js'
export * from './resource.js'
export * from './slot-usage.js'
export { conditionsOf } from './status-conditions.js'
export { TokenBucket } from './token-bucket.js'
export * from './types.js'
