import { defineError } from '@akrijs/runtime'

/** The state of the standalone agent cannot be written or read. */
export class StateFileError extends defineError('AKRI_ERR_STATE_FILE', 'transient') {}

/** Another agent uses the state directory. */
export class StateLockedError extends defineError('AKRI_ERR_STATE_LOCKED', 'terminal') {}
