import type { DiscoveryHandler } from '@akrijs/sdk'
import type { UdevDetails } from './details.js'
import { defineUdevHandler, type UdevHandlerOptions } from './handler.js'
import { UeventMonitor } from './uevent-monitor.js'

export { UdevRuleError } from './errors.js'
export type { UdevDetails, UdevHandlerOptions }

/** Creates a udev handler with other roots or another monitor, for tests. */
export function createUdevHandler(
  options: Partial<UdevHandlerOptions> = {},
): DiscoveryHandler<UdevDetails> {
  const { runUdevRoot } = options
  return defineUdevHandler({
    monitor: new UeventMonitor(runUdevRoot === undefined ? {} : { runUdevRoot }),
    ...options,
  })
}

export default createUdevHandler()
