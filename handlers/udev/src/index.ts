import type { DiscoveryHandler } from '@akrijs/sdk'
import { systemClock } from '@akrijs/sdk'
import type { UdevDetails } from './details.js'
import { defineUdevHandler, type UdevHandlerOptions } from './handler.js'
import { openMonitor } from './uevent-monitor.js'

export { UdevRuleError } from './errors.js'
export type { UdevDetails, UdevHandlerOptions }

/** The udev handler with other roots or another monitor, for tests. */
export function createUdevHandler(options: Partial<UdevHandlerOptions> = {}): DiscoveryHandler<UdevDetails> {
  return defineUdevHandler({ openMonitor: (context) => openMonitor({ ...context, clock: systemClock }), ...options })
}

export default createUdevHandler()
