import { defineError } from '@akrijs/sdk'

/** The address of a camera is not one that may be spoken to (`allowedNetworks`), or its URL is none of a camera. */
export class ForbiddenAddressError extends defineError('AKRI_ERR_ONVIF_ADDRESS', 'terminal') {}

/** A camera cannot be reached, does not answer in time, or answers more than is read. */
export class CameraUnreachableError extends defineError(
  'AKRI_ERR_ONVIF_UNREACHABLE',
  'transient',
) {}

/** What a camera answers is not what ONVIF says that it answers. */
export class InvalidReplyError extends defineError('AKRI_ERR_ONVIF_REPLY', 'transient') {}

/** A camera answers with a SOAP fault; the message has its code and its reason. */
export class SoapFaultError extends defineError('AKRI_ERR_ONVIF_FAULT', 'transient') {}

/** A camera wants a credential, or refuses the one that it was given. */
export class NotAuthorizedError extends defineError('AKRI_ERR_ONVIF_NOT_AUTHORIZED', 'terminal') {}
