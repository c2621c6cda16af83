import { defineError } from '@akrijs/runtime'

/** Something that whoever typed the command can mend. */
export class UsageError extends defineError('AKRI_ERR_USAGE', 'terminal') {}

/** No agent answers on the state directory. */
export class NoAgentError extends defineError('AKRI_ERR_NO_AGENT', 'terminal') {}

/** The agent has no object of that name. */
export class NoSuchObjectError extends defineError('AKRI_ERR_NO_SUCH_OBJECT', 'terminal') {}
