import { defineError } from '@akrijs/runtime'

/**
 * A Secret, ConfigMap or key of a Configuration does not exist. The message names the object, and
 * never a value.
 */
export class MissingPropertyError extends defineError('AKRI_ERR_MISSING_PROPERTY', 'transient') {}

/**
 * The API server refuses the agent the read of a Secret or ConfigMap. The message names the Role
 * that the agent lacks.
 */
export class PropertyForbiddenError extends defineError(
  'AKRI_ERR_PROPERTY_FORBIDDEN',
  'transient',
) {}

/** The API server did not answer the read of a Secret or ConfigMap. */
export class PropertyUnreadableError extends defineError(
  'AKRI_ERR_PROPERTY_UNREADABLE',
  'transient',
) {}

/**
 * A Configuration refers to a Secret or ConfigMap of another namespace, and the object does not
 * consent. The message is the same if there is no such object. Or the Configuration is beyond a
 * bound of objects or of their data; the message names the bound.
 */
export class PropertyRefusedError extends defineError('AKRI_ERR_PROPERTY_REFUSED', 'transient') {}

/** The kubelet cannot be reached, or does not list its Pods. */
export class KubeletUnavailableError extends defineError(
  'AKRI_ERR_KUBELET_UNAVAILABLE',
  'transient',
) {}

/**
 * The directory of the kubelet is another one now, or its socket has refused for a minute.
 * A new agent finds the directory that is there then: a container keeps the one it was mounted.
 */
export class KubeletGoneError extends defineError('AKRI_ERR_KUBELET_GONE', 'transient') {}

/** The kubelet refuses to register a device plugin. The message has its answer. */
export class PluginRefusedError extends defineError('AKRI_ERR_PLUGIN_REFUSED', 'transient') {}

/** An allocation is refused. The kubelet shows the message in the Pod's status. */
export class AllocationRefusedError extends defineError(
  'AKRI_ERR_ALLOCATION_REFUSED',
  'transient',
) {}

/** Two objects of one name in two namespaces cannot both have the resource of that name. */
export class ResourceTakenError extends defineError('AKRI_ERR_RESOURCE_TAKEN', 'transient') {}

/** The Node of this agent was deleted. */
export class NodeGoneError extends defineError('AKRI_ERR_NODE_GONE', 'transient') {}

/** Other writers changed an Instance before each attempt of this agent to change it. */
export class ClusterBusyError extends defineError('AKRI_ERR_CLUSTER_BUSY', 'transient') {}

/** The installed custom resource is not of this version. */
export class OutdatedResourceError extends defineError('AKRI_ERR_OUTDATED_RESOURCE', 'terminal') {}

/** A handler sends a message that is no list of devices, or that is too large. */
export class InvalidResponseError extends defineError('AKRI_ERR_INVALID_RESPONSE', 'transient') {}
