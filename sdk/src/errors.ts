import { AkriError, defineError, kindOf } from '@akrijs/runtime'

/**
 * A handler's device list breaks the contract: the message names the device and the rule. gRPC:
 * INTERNAL.
 */
export class InvalidDeviceListError extends defineError('AKRI_ERR_INVALID_DEVICE_LIST', 'bug') {}

/**
 * A handler threw an error, which is the cause. The error is a bug if its cause is a bug. gRPC:
 * UNKNOWN.
 */
export class HandlerFailedError extends AkriError {
  constructor(message: string, cause: unknown) {
    const kind = kindOf(cause) === 'bug' ? 'bug' : 'transient'
    super('AKRI_ERR_HANDLER_FAILED', kind, message, { cause })
  }
}

/** `missesAllowed` of `Presence` is not a whole number of 0 or more. */
export class InvalidPresenceError extends defineError('AKRI_ERR_INVALID_PRESENCE', 'terminal') {}
