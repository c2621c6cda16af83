import { defineError } from '@akrijs/runtime'

/**
 * The API server does not describe its types, or describes them in a form that the webhook cannot
 * read.
 */
export class SchemaUnusableError extends defineError('AKRI_ERR_SCHEMA_UNUSABLE', 'transient') {}

/** The schema of a handler threw or took too long: `discoveryDetails` could not be checked. */
export class DetailsUncheckedError extends defineError('AKRI_ERR_DETAILS_UNCHECKED', 'transient') {}

/** The certificate of the webhook, or its key, cannot be read or used. */
export class CertificateUnusableError extends defineError(
  'AKRI_ERR_CERTIFICATE_UNUSABLE',
  'terminal',
) {}

/** The Secret that holds the webhook's own certificate does not exist: the installer creates it. */
export class MissingSecretError extends defineError('AKRI_ERR_MISSING_SECRET', 'transient') {}

/** The webhook cannot listen on its port. */
export class WebhookPortError extends defineError('AKRI_ERR_WEBHOOK_PORT', 'terminal') {}
