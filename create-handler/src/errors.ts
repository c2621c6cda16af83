import { defineError } from '@akrijs/runtime'

/** The project of a new handler cannot be written. Nothing of the project is left. */
export class ProjectError extends defineError('AKRI_ERR_CREATE_PROJECT', 'terminal') {}
