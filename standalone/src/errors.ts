import { defineError } from '@akrijs/runtime'

/** The state of the standalone agent cannot be written or read. */
export class StateFileError extends defineError('AKRI_ERR_STATE_FILE', 'transient') {}

/** Another agent uses the state directory. */
export class StateLockedError extends defineError('AKRI_ERR_STATE_LOCKED', 'terminal') {}

/** The simulated kubelet refused a Pod, with the reason that a kubelet gives. */
export class AdmissionError extends defineError('AKRI_ERR_ADMISSION', 'transient') {
  constructor(message: string) {
    super(`UnexpectedAdmissionError: ${message}`)
  }
}
