import { defineError } from '@akrijs/runtime'

/** No agent answers for the state directory. */
export class NoAgentError extends defineError('AKRI_ERR_NO_AGENT', 'terminal') {}

/** The agent has no object of this name. */
export class NoSuchObjectError extends defineError('AKRI_ERR_NO_SUCH_OBJECT', 'terminal') {}
