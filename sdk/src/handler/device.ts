/** A device as a handler reports it. */
export interface Device {
  /**
   * Identifies the device within its Configuration. The id is the same after a restart, after the
   * device was plugged in again and, for a shared device, on every node. The Instance's name is
   * derived from the id.
   */
  readonly id: string
  /**
   * Environment variables for the containers that use the device. A property whose value is
   * undefined is left out. @default {}
   */
  readonly properties?: Readonly<Record<string, string | undefined>>
  /** Directories and files of the host for these containers. @default [] */
  readonly mounts?: readonly Mount[]
  /** Device nodes of the host for these containers. @default [] */
  readonly deviceSpecs?: readonly DeviceSpec[]
}

/** A directory or file of the host for a container. */
export interface Mount {
  /** An absolute path. */
  readonly containerPath: string
  /** An absolute path. */
  readonly hostPath: string
  /** @default false */
  readonly readOnly?: boolean
}

/** A device node of the host for a container. */
export interface DeviceSpec {
  /** An absolute path. */
  readonly containerPath: string
  /** An absolute path. */
  readonly hostPath: string
  /** `r` (read), `w` (write) and `m` (make the node), each at most once. */
  readonly permissions: string
}

/** All devices that a handler finds at one moment. */
export type DeviceList = readonly Device[]

/**
 * What `discover` returns. In TypeScript, write it as the type of the generator: then a wrong field
 * of a device is an error at the field, and not at `discover`:
 * `async *discover({ details }): DeviceLists { … }`.
 */
export type DeviceLists = AsyncIterable<DeviceList>
