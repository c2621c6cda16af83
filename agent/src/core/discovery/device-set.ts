import type { Device } from '@akrijs/runtime/handler'

/** A device of one Configuration as this node knows it now. */
export interface DiscoveredDevice {
  readonly device: Device
  /** Whether other nodes can see it too: a property of the endpoint that found it. */
  readonly shared: boolean
  /** The uid of the endpoint that found it. */
  readonly endpoint: string
  /** False once its handler has been silent for longer than the first grace period: keep it, do not offer it. */
  readonly healthy: boolean
}

/** All devices of one Configuration: the union over its endpoints, one entry per device id. */
export interface DeviceSet {
  readonly devices: ReadonlyMap<string, DiscoveredDevice>
  /**
   * Whether a device that is not in here is gone. False while some answer is outstanding (just started, handler away):
   * absence of evidence is not evidence of absence.
   */
  readonly complete: boolean
}
