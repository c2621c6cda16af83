import { AkriError } from '@akrijs/runtime'

/** Somebody else has made an object of the name that one of ours is to have. */
export class NameTakenError extends AkriError {
  constructor(message: string) {
    super('AKRI_ERR_NAME_TAKEN', 'transient', message)
    this.name = 'NameTakenError'
  }
}
