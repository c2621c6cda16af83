import { defineError } from '@akrijs/sdk'

/** A camera names an address outside of `allowedNetworks`, or a URL that no camera service has. */
export class OnvifAddressError extends defineError('AKRI_ERR_ONVIF_ADDRESS', 'terminal') {}

/** A camera cannot be reached, answers too late, or answers with more bytes than the limit. */
export class OnvifUnreachableError extends defineError('AKRI_ERR_ONVIF_UNREACHABLE', 'transient') {}

/** A camera is too busy to check a credential: it may still start. */
export class OnvifBusyError extends defineError('AKRI_ERR_ONVIF_BUSY', 'transient') {}

/** The answer of a camera breaks the ONVIF specification. */
export class OnvifReplyError extends defineError('AKRI_ERR_ONVIF_REPLY', 'transient') {}

/** A camera answers with a SOAP fault; the message has its code and its reason. */
export class OnvifFaultError extends defineError('AKRI_ERR_ONVIF_FAULT', 'transient') {}

/** A camera asks for a credential, or refuses the credential that it got. */
export class OnvifNotAuthorizedError extends defineError(
  'AKRI_ERR_ONVIF_NOT_AUTHORIZED',
  'terminal',
) {}

/** A camera that answers no call without a credential refuses the credential. */
export class OnvifCredentialRefusedError extends defineError(
  'AKRI_ERR_ONVIF_CREDENTIAL_REFUSED',
  'terminal',
) {}

/** Data from the network is not XML, or exceeds a limit of the XML reader. */
export class OnvifXmlError extends defineError('AKRI_ERR_ONVIF_XML', 'transient') {}

/** A datagram is not a message of WS-Discovery, or exceeds a limit of the reader. */
export class OnvifMessageError extends defineError('AKRI_ERR_ONVIF_MESSAGE', 'transient') {}
