import { AkriError } from '@akrijs/sdk'

/** The address of a camera is not one that may be spoken to (`allowedNetworks`), or its URL is none of a camera. */
export class ForbiddenAddressError extends AkriError {
  constructor(message: string) {
    super('AKRI_ERR_ONVIF_ADDRESS', 'terminal', message)
    this.name = 'ForbiddenAddressError'
  }
}

/** A camera cannot be reached, does not answer in time, or answers more than is read. */
export class CameraUnreachableError extends AkriError {
  constructor(message: string, options?: { cause?: unknown }) {
    super('AKRI_ERR_ONVIF_UNREACHABLE', 'transient', message, options)
    this.name = 'CameraUnreachableError'
  }
}

/** What a camera answers is not what ONVIF says that it answers. */
export class InvalidReplyError extends AkriError {
  constructor(message: string, options?: { cause?: unknown }) {
    super('AKRI_ERR_ONVIF_REPLY', 'transient', message, options)
    this.name = 'InvalidReplyError'
  }
}

/** A camera answers with a SOAP fault; the message has its code and its reason. */
export class SoapFaultError extends AkriError {
  constructor(message: string) {
    super('AKRI_ERR_ONVIF_FAULT', 'transient', message)
    this.name = 'SoapFaultError'
  }
}

/** A camera wants a credential, or refuses the one that it was given. */
export class NotAuthorizedError extends AkriError {
  constructor(message: string) {
    super('AKRI_ERR_ONVIF_NOT_AUTHORIZED', 'terminal', message)
    this.name = 'NotAuthorizedError'
  }
}
