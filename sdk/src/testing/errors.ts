import { defineError } from '@akrijs/runtime'

/** A registration or a device list did not arrive in time. */
export class SimulatedAgentError extends defineError('AKRI_ERR_SIMULATED_AGENT', 'terminal') {}

/** The end of a discovery. `status` is the name of the gRPC status, such as `INVALID_ARGUMENT`. */
export class DiscoveryEndedError extends SimulatedAgentError {
  /** The name of the gRPC status, such as `INVALID_ARGUMENT`. */
  readonly status: string

  /** @internal */
  constructor(statusName: string, details: string) {
    super(`${statusName}: ${details}`)
    this.name = 'DiscoveryEndedError'
    this.status = statusName
  }
}

/** After a test has closed its discovery. */
export function closedByTest(): DiscoveryEndedError {
  return new DiscoveryEndedError('CANCELLED', 'closed by the test')
}
