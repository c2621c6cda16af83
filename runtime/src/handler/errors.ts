import { defineError } from '../errors.js'

/** The `discoveryDetails` of a Configuration are not what the handler understands. gRPC: INVALID_ARGUMENT. */
export class InvalidDetailsError extends defineError('AKRI_ERR_INVALID_DETAILS', 'terminal') {}

/** What is defined as a handler is not one: its name, its details or its version does not fit. */
export class InvalidHandlerError extends defineError('AKRI_ERR_INVALID_HANDLER', 'terminal') {}

/** The npm package of a handler is not there or not what it should be. */
export class HandlerPackageError extends defineError('AKRI_ERR_HANDLER_PACKAGE', 'terminal') {}
