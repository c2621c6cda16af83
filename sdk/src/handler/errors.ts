import { defineError } from '@akrijs/runtime'

/**
 * The `discoveryDetails` of a Configuration do not fit the handler's schema. gRPC:
 * INVALID_ARGUMENT.
 */
export class InvalidDetailsError extends defineError('AKRI_ERR_INVALID_DETAILS', 'terminal') {}

/** A member of a handler's definition is wrong. */
export class InvalidHandlerError extends defineError('AKRI_ERR_INVALID_HANDLER', 'terminal') {}

/** The npm package of a handler is not installed, or is wrong. */
export class HandlerPackageError extends defineError('AKRI_ERR_HANDLER_PACKAGE', 'terminal') {}
