import { type DiscoveryHandler, systemClock } from '@akrijs/sdk'
import type { OnvifDetails } from './details.js'
import { defineOnvifHandler, type OnvifHandlerOptions } from './handler.js'

export type { OnvifDetails, OnvifHandlerOptions }

/** The ONVIF handler with another clock or other intervals, for tests. */
export function createOnvifHandler(
  options: Partial<OnvifHandlerOptions> = {},
): DiscoveryHandler<OnvifDetails> {
  return defineOnvifHandler({ clock: systemClock, ...options })
}

export default createOnvifHandler()
