import { defineError } from '@akrijs/runtime'

/** Somebody else has made an object of the name that one of ours is to have. */
export class NameTakenError extends defineError('AKRI_ERR_NAME_TAKEN', 'transient') {}
