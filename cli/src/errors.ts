import { AkriError } from '@akrijs/runtime'

/** Something that whoever typed the command can mend. */
export class UsageError extends AkriError {
  constructor(message: string, options?: { cause?: unknown }) {
    super('AKRI_ERR_USAGE', 'terminal', message, options)
    this.name = 'UsageError'
  }
}

/** No agent answers on the state directory. */
export class NoAgentError extends AkriError {
  constructor(message: string, options?: { cause?: unknown }) {
    super('AKRI_ERR_NO_AGENT', 'terminal', message, options)
    this.name = 'NoAgentError'
  }
}

/** The agent has no object of that name. */
export class NoSuchObjectError extends AkriError {
  constructor(message: string) {
    super('AKRI_ERR_NO_SUCH_OBJECT', 'terminal', message)
    this.name = 'NoSuchObjectError'
  }
}
