// For the standalone agent and the CLI.
export { HandlerAccess } from './access/handler-access.js'
export * from './cluster/cluster.js'
export { ObjectStore } from './cluster/object-store.js'
export { type PodText, podDemand } from './cluster/pod-demand.js'
export {
  type DataReference,
  type ReferencedData,
  referencesOf,
  referenceText,
  resolveReferences,
} from './cluster/property-references.js'
export type { AgeingOptions } from './discovery/device-set.js'
export { KubeletUnavailableError, MissingPropertyError, PropertyRefusedError } from './errors.js'
export { isolatedNames, runIsolated } from './handlers/isolated-handler.js'
export { AllowedAddresses } from './handlers/registration-request.js'
export { isOwnedBy } from './instances/existing-instances.js'
export * from './instances/instance-steps.js'
export type { NodePods } from './kubelet/kubelet.js'
export { KubeletSockets } from './kubelet/kubelet-sockets.js'
export { type Agent, startAgent } from './program/agent.js'
