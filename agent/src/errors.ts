import { AkriError } from '@akrijs/runtime'

/** A Secret, ConfigMap or key that a Configuration refers to is not there. The message names it, and never a value. */
export class MissingPropertyError extends AkriError {
  constructor(message: string) {
    super('AKRI_ERR_MISSING_PROPERTY', 'transient', message)
    this.name = 'MissingPropertyError'
  }
}

/** The kubelet cannot be reached, or refuses. */
export class KubeletUnavailableError extends AkriError {
  constructor(message: string, options?: { cause?: unknown }) {
    super('AKRI_ERR_KUBELET_UNAVAILABLE', 'transient', message, options)
    this.name = 'KubeletUnavailableError'
  }
}

/** What a container asks for cannot be given. The kubelet shows the message in the Pod's status. */
export class AllocationRefusedError extends AkriError {
  constructor(message: string) {
    super('AKRI_ERR_ALLOCATION_REFUSED', 'transient', message)
    this.name = 'AllocationRefusedError'
  }
}

/** Two Instances of one name, in two namespaces, cannot both have the resource of that name. */
export class ResourceTakenError extends AkriError {
  constructor(message: string) {
    super('AKRI_ERR_RESOURCE_TAKEN', 'transient', message)
    this.name = 'ResourceTakenError'
  }
}

/** An Instance was changed by others each time that this agent was about to change it. */
export class ClusterBusyError extends AkriError {
  constructor(message: string) {
    super('AKRI_ERR_CLUSTER_BUSY', 'transient', message)
    this.name = 'ClusterBusyError'
  }
}

/** The custom resource that is installed is not of this version. */
export class OutdatedResourceError extends AkriError {
  constructor(message: string, options?: { cause?: unknown }) {
    super('AKRI_ERR_OUTDATED_RESOURCE', 'terminal', message, options)
    this.name = 'OutdatedResourceError'
  }
}
