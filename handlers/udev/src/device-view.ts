/** A device as rules and properties look at it. Everything is read when it is asked for. */
export interface DeviceView {
  /** The path below `/sys`, such as `/devices/virtual/mem/null`. */
  readonly devpath: string
  /** The last component of the path, with `!` as `/`. */
  readonly kernel: string
  readonly subsystem: string | undefined
  readonly driver: string | undefined
  /** `/dev/…`, where the device has a node. */
  readonly devnode: string | undefined
  /** udev's current tags. */
  readonly tags: ReadonlySet<string>
  /** What `udevadm info` shows as E:. */
  readonly properties: ReadonlyMap<string, string>
  /** The nearest ancestor that is a device. */
  readonly parent: DeviceView | undefined
  /** The value of a sysfs attribute, without its final newline; undefined where there is none that can be read. */
  attribute(name: string): string | undefined
}
