import { defineError } from '@akrijs/runtime'

/** `npm create @akrijs/handler` cannot write a project. Nothing of the project is left. */
export class ProjectError extends defineError('AKRI_ERR_CREATE_PROJECT', 'terminal') {}
