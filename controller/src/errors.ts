import { defineError } from '@akrijs/runtime'

/** An object of another owner has the name that an object of the controller should have. */
export class NameTakenError extends defineError('AKRI_ERR_NAME_TAKEN', 'transient') {}

/** A broker has been deleted, and a finalizer keeps it from going. */
export class BrokerHeldError extends defineError('AKRI_ERR_BROKER_HELD', 'transient') {}
