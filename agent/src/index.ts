// For the standalone agent and the CLI.
export { HandlerAccess } from './core/access/handler-access.js'
export type { AgeingOptions } from './core/discovery/device-ageing.js'
export {
  type DataReference,
  isSameData,
  type ReferencedData,
  referencesOf,
  referenceText,
  resolveReferences,
} from './core/discovery/property-references.js'
export { isOwnedBy } from './core/instances/existing-instances.js'
export * from './core/instances/instance-steps.js'
export { mergeStatus } from './core/status/merge-status.js'
export { storedProblems, storedStatus } from './core/status/stored-status.js'
export { KubeletUnavailableError, MissingPropertyError, PropertyRefusedError } from './errors.js'
export { NO_CHANNELZ } from './node/channelz.js'
export { AllowedAddresses } from './node/handlers/allowed-addresses.js'
export { isolatedNames, runIsolated } from './node/handlers/isolated-handler.js'
export { KubeletSockets } from './node/kubelet/kubelet-sockets.js'
export * from './ports/cluster.js'
export type { NodePods } from './ports/kubelet.js'
export { type Agent, startAgent } from './program/agent.js'
