import type { Logger } from '@akrijs/sdk'

/** The sender of an event. */
export type MessageSource = 'kernel' | 'udev'

/** An event of the kernel or of udevd. */
export interface Uevent {
  readonly source: MessageSource
  /** `add`, `change`, `remove`, `bind`, `move`, … */
  readonly action: string
  /** The path below the sysfs root, such as `/devices/virtual/mem/null`. Untrusted input. */
  readonly devpath: string
  /** The properties of the message: `SUBSYSTEM`, `DEVNAME`, `SEQNUM`, … */
  readonly properties: ReadonlyMap<string, string>
}

/** The reason for another look at the devices of the machine. */
export type Change =
  /** A burst of events, in the order of arrival. */
  | { readonly kind: 'events'; readonly events: readonly Uevent[] }
  /** The change is unknown: scan everything. */
  | { readonly kind: 'rescan'; readonly reason: string }

/** Reports when devices appear, disappear or change. */
export interface DeviceMonitor {
  /** Why changes are found late; undefined while events arrive. @default undefined */
  readonly problem?: string | undefined
  /** Finds `problem` again: udevd may have started since, or elsewhere. @default nothing to find */
  checkProblem?(): void
  /**
   * Starts with a rescan after the sockets are open, so that no event is lost between the first
   * scan and the first event. Ends when the signal is aborted.
   */
  changes(signal: AbortSignal, log: Logger): AsyncIterable<Change>
}
