import { defineError } from '@akrijs/runtime'

/**
 * A host name has no address, has no answer yet, or exceeds the limit of names. The message has the
 * name and the reason.
 */
export class HostNameError extends defineError('AKRI_ERR_HOST_NAME', 'transient') {
  /** @internal */
  constructor(host: string, reason: string, options?: { readonly cause?: unknown }) {
    super(`the host name ${host} does not resolve: ${reason}`, options)
  }
}
