/** What the program that meets an error should do about it. */
export type ErrorKind =
  /** Nothing gets better by trying again: show it to whoever wrote the input. */
  | 'terminal'
  /** The world may be better later: try again, with a back-off. */
  | 'transient'
  /** A mistake in akri.js or in a handler. */
  | 'bug'

const MARK = Symbol.for('akri.error')

/**
 * The base of every error of akri.js. `code` is stable and listed in docs/errors.md.
 * Use {@link AkriError.is} rather than `instanceof`: it also knows the errors of another installed copy of this package.
 */
export class AkriError extends Error {
  readonly code: `AKRI_ERR_${string}`
  readonly kind: ErrorKind
  readonly [MARK] = true

  constructor(code: `AKRI_ERR_${string}`, kind: ErrorKind, message: string, options?: { cause?: unknown }) {
    super(message, options)
    this.name = 'AkriError'
    this.code = code
    this.kind = kind
  }

  static is(error: unknown): error is AkriError {
    return error instanceof Error && MARK in error
  }
}

/** The `discoveryDetails` of a Configuration are not what the handler understands. gRPC: INVALID_ARGUMENT. */
export class InvalidDetailsError extends AkriError {
  constructor(message: string, options?: { cause?: unknown }) {
    super('AKRI_ERR_INVALID_DETAILS', 'terminal', message, options)
    this.name = 'InvalidDetailsError'
  }
}

/** A handler gave a device list that breaks the contract: the message names the device and the rule. gRPC: INTERNAL. */
export class InvalidDeviceListError extends AkriError {
  constructor(message: string) {
    super('AKRI_ERR_INVALID_DEVICE_LIST', 'bug', message)
    this.name = 'InvalidDeviceListError'
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

/** A host name does not resolve, has not yet, or is one too many. The message names it and says why. */
export class HostNameError extends AkriError {
  constructor(host: string, reason: string, options?: { cause?: unknown }) {
    super('AKRI_ERR_HOST_NAME', 'transient', `the host name ${host} does not resolve: ${reason}`, options)
    this.name = 'HostNameError'
  }
}

/** The message of anything that was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
