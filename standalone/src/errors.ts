import { AkriError } from '@akrijs/runtime'

/** The state of the standalone agent cannot be written or read. */
export class StateFileError extends AkriError {
  constructor(message: string, options?: { cause?: unknown }) {
    super('AKRI_ERR_STATE_FILE', 'transient', message, options)
    this.name = 'StateFileError'
  }
}

/** Another agent runs on the same state directory. */
export class StateLockedError extends AkriError {
  constructor(message: string) {
    super('AKRI_ERR_STATE_LOCKED', 'terminal', message)
    this.name = 'StateLockedError'
  }
}

/** A Pod was refused by the simulated kubelet, for the reason that a kubelet gives. */
export class AdmissionError extends AkriError {
  constructor(message: string) {
    super('AKRI_ERR_ADMISSION', 'transient', `UnexpectedAdmissionError: ${message}`)
    this.name = 'AdmissionError'
  }
}
