/** A device as a handler reports it. */
export interface Device {
  /**
   * Tells this device from all others that the same Configuration can find, and stays the same over restarts, replugging
   * and, for shared devices, on every node. The Instance's name is derived from it.
   */
  readonly id: string
  /** Environment variables for the containers that use the device. @default {} */
  readonly properties?: Readonly<Record<string, string>>
  /** Directories or files of the host to be mounted into those containers. @default [] */
  readonly mounts?: readonly Mount[]
  /** Device nodes of the host to be made available in those containers. @default [] */
  readonly deviceSpecs?: readonly DeviceSpec[]
}

export interface Mount {
  /** Absolute. */
  readonly containerPath: string
  /** Absolute. */
  readonly hostPath: string
  /** @default false */
  readonly readOnly?: boolean
}

export interface DeviceSpec {
  /** Absolute. */
  readonly containerPath: string
  /** Absolute. */
  readonly hostPath: string
  /** Of `r` (read), `w` (write) and `m` (make the node), each at most once. */
  readonly permissions: string
}

/** The complete list of what a handler finds at one moment. */
export type DeviceList = readonly Device[]
