/** A device for the evaluation of rules. Each member is read on access. */
export interface DeviceView {
  /** The path below `/sys`, such as `/devices/virtual/mem/null`. */
  readonly devpath: string
  /** The last component of the path, with `/` in place of `!`. */
  readonly kernel: string
  readonly subsystem: string | undefined
  readonly driver: string | undefined
  /** The device node below `/dev`, if any. */
  readonly devnode: string | undefined
  /** The current tags of udev. */
  readonly tags: ReadonlySet<string>
  /** The properties that `udevadm info` shows with `E:`. */
  readonly properties: ReadonlyMap<string, string>
  /** The nearest ancestor device. */
  readonly parent: DeviceView | undefined
  /**
   * The value of a sysfs attribute without its final newline; undefined if it is absent or
   * unreadable.
   */
  attribute(name: string): string | undefined
}
