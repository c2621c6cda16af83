import { AkriError } from '@akrijs/runtime'

/** A handler gave a device list that breaks the contract: the message names the device and the rule. gRPC: INTERNAL. */
export class InvalidDeviceListError extends AkriError {
  constructor(message: string) {
    super('AKRI_ERR_INVALID_DEVICE_LIST', 'bug', message)
    this.name = 'InvalidDeviceListError'
  }
}
