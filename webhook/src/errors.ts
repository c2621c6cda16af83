import { defineError } from '@akrijs/runtime'

/** The API server does not describe its own types, or not in a way that the webhook understands. */
export class SchemaUnusableError extends defineError('AKRI_ERR_SCHEMA_UNUSABLE', 'transient') {}

/** The schema of a handler threw or took too long, so that nobody knows whether `discoveryDetails` are right. */
export class DetailsUncheckedError extends defineError('AKRI_ERR_DETAILS_UNCHECKED', 'transient') {}

/** The certificate that the webhook is to serve with, or its key, cannot be read or used. */
export class CertificateUnusableError extends defineError(
  'AKRI_ERR_CERTIFICATE_UNUSABLE',
  'terminal',
) {}

/** The port of the webhook cannot be listened on. */
export class WebhookPortError extends defineError('AKRI_ERR_WEBHOOK_PORT', 'terminal') {}
