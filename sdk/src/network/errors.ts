import { AkriError } from '@akrijs/runtime'

/** A host name does not resolve, has not yet, or is one too many. The message names it and says why. */
export class HostNameError extends AkriError {
  constructor(host: string, reason: string, options?: { cause?: unknown }) {
    super(
      'AKRI_ERR_HOST_NAME',
      'transient',
      `the host name ${host} does not resolve: ${reason}`,
      options,
    )
    this.name = 'HostNameError'
  }
}
