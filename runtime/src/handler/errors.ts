import { AkriError } from '../errors.js'

/** The `discoveryDetails` of a Configuration are not what the handler understands. gRPC: INVALID_ARGUMENT. */
export class InvalidDetailsError extends AkriError {
  constructor(message: string, options?: { cause?: unknown }) {
    super('AKRI_ERR_INVALID_DETAILS', 'terminal', message, options)
    this.name = 'InvalidDetailsError'
  }
}

/** What is defined as a handler is not one: its name, its details or its version does not fit. */
export class InvalidHandlerError extends AkriError {
  constructor(message: string, options?: { cause?: unknown }) {
    super('AKRI_ERR_INVALID_HANDLER', 'terminal', message, options)
    this.name = 'InvalidHandlerError'
  }
}

/** The npm package of a handler is not there or not what it should be. */
export class HandlerPackageError extends AkriError {
  constructor(message: string, options?: { cause?: unknown }) {
    super('AKRI_ERR_HANDLER_PACKAGE', 'terminal', message, options)
    this.name = 'HandlerPackageError'
  }
}
