import { defineError } from '@akrijs/runtime'

/** A handler gave a device list that breaks the contract: the message names the device and the rule. gRPC: INTERNAL. */
export class InvalidDeviceListError extends defineError('AKRI_ERR_INVALID_DEVICE_LIST', 'bug') {}
