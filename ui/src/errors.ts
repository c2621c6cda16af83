import { defineError } from '@akrijs/runtime'

/** The page cannot be served at the port that an option names. */
export class UiPortError extends defineError('AKRI_ERR_UI_PORT', 'terminal') {}

/** A Configuration of the page cannot be tried or written. */
export class UiTrialError extends defineError('AKRI_ERR_UI_TRIAL', 'terminal') {}
