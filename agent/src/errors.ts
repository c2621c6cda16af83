import { defineError } from '@akrijs/runtime'

/** A Secret, ConfigMap or key that a Configuration refers to is not there. The message names it, and never a value. */
export class MissingPropertyError extends defineError('AKRI_ERR_MISSING_PROPERTY', 'transient') {}

/** The kubelet cannot be reached, or refuses. */
export class KubeletUnavailableError extends defineError(
  'AKRI_ERR_KUBELET_UNAVAILABLE',
  'transient',
) {}

/** What a container asks for cannot be given. The kubelet shows the message in the Pod's status. */
export class AllocationRefusedError extends defineError(
  'AKRI_ERR_ALLOCATION_REFUSED',
  'transient',
) {}

/** Two Instances of one name, in two namespaces, cannot both have the resource of that name. */
export class ResourceTakenError extends defineError('AKRI_ERR_RESOURCE_TAKEN', 'transient') {}

/** An Instance was changed by others each time that this agent was about to change it. */
export class ClusterBusyError extends defineError('AKRI_ERR_CLUSTER_BUSY', 'transient') {}

/** The custom resource that is installed is not of this version. */
export class OutdatedResourceError extends defineError('AKRI_ERR_OUTDATED_RESOURCE', 'terminal') {}
