export { ApiClient, type ApiClientOptions, type ApiRequest } from './api-client.js'
export type { ClusterAccess } from './cluster-credentials.js'
export { ApiError, ApiUnreachableError } from './errors.js'
export { EventRecorder } from './event-recorder.js'
export * from './kinds.js'
export { LeaderElection } from './leader-election.js'
export { listObjects, listPages } from './list-watch.js'
export { mergePatchOf } from './merge-patch.js'
export { type ApiObject, keyIn } from './object-cache.js'
export {
  type JsonPatch,
  keyOf,
  keyParts,
  type NodeName,
  type ObjectEvent,
  type ObjectKey,
  type ObjectMeta,
  type OwnerIdentity,
  type OwnerReference,
  objectKey,
  ownerId,
  pointer,
  type ResourceKind,
  referenceId,
  refersTo,
} from './objects.js'
export { applyJsonPatch } from './patches.js'
export { type RecheckAfter, ReconcileQueue, type ReconcileResult } from './reconcile-queue.js'
export { type ReflectedPart, Reflector } from './reflector.js'
export { type DeleteOptions, Resource } from './resource.js'
export { warningLogger } from './server-warnings.js'
