import { defineError } from '@akrijs/runtime'

/** A handler's device list breaks the contract: the message names the device and the rule. gRPC: INTERNAL. */
export class InvalidDeviceListError extends defineError('AKRI_ERR_INVALID_DEVICE_LIST', 'bug') {}

/** A handler threw an error that has no code of akri.js. gRPC: UNKNOWN. */
export class HandlerFailedError extends defineError('AKRI_ERR_HANDLER_FAILED', 'transient') {}

/** The interval of `every` is not a number of milliseconds of 1 or more, nor a text with a unit. */
export class InvalidIntervalError extends defineError('AKRI_ERR_INVALID_INTERVAL', 'terminal') {}

/** `missesAllowed` of `Presence` is not a whole number of 0 or more. */
export class InvalidPresenceError extends defineError('AKRI_ERR_INVALID_PRESENCE', 'terminal') {}
