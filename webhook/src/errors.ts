import { AkriError } from '@akrijs/runtime'

/** The API server does not describe its own types, or not in a way that the webhook understands. */
export class SchemaUnusableError extends AkriError {
  constructor(message: string, options?: { cause?: unknown }) {
    super('AKRI_ERR_SCHEMA_UNUSABLE', 'transient', message, options)
    this.name = 'SchemaUnusableError'
  }
}

/** The schema of a handler threw or took too long, so that nobody knows whether `discoveryDetails` are right. */
export class DetailsUncheckedError extends AkriError {
  constructor(message: string, options?: { cause?: unknown }) {
    super('AKRI_ERR_DETAILS_UNCHECKED', 'transient', message, options)
    this.name = 'DetailsUncheckedError'
  }
}

/** The certificate that the webhook is to serve with, or its key, cannot be read or used. */
export class CertificateUnusableError extends AkriError {
  constructor(message: string, options?: { cause?: unknown }) {
    super('AKRI_ERR_CERTIFICATE_UNUSABLE', 'terminal', message, options)
    this.name = 'CertificateUnusableError'
  }
}

/** The port of the webhook cannot be listened on. */
export class WebhookPortError extends AkriError {
  constructor(message: string, options?: { cause?: unknown }) {
    super('AKRI_ERR_WEBHOOK_PORT', 'terminal', message, options)
    this.name = 'WebhookPortError'
  }
}
