/**
 * How many devices one agent serves. A device with more than 4 KiB counts as several devices, so
 * the bounds hold for the memory of devices too: 8 MiB for the devices of a node.
 */
export interface DeviceBounds {
  /** Of one Configuration, and of one list of a handler. */
  readonly perConfiguration: number
  /** Of all Configurations together. */
  readonly perNode: number
  /** The slots of all these devices: a device has as many as the capacity of its Configuration. */
  readonly slots: number
}

/**
 * Each device is a device plugin: a socket and a connection of the kubelet, and a name in the
 * status of the Node. Each slot is an id that the kubelet writes to its file whenever a list
 * changes. `docs/operators.md` has the measurements behind these numbers.
 */
export const DEVICE_BOUNDS: DeviceBounds = { perConfiguration: 1000, perNode: 2000, slots: 20_000 }
