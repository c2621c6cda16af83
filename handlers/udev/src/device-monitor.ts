import type { Logger } from '@akrijs/sdk'

/** One event of the kernel or of udevd. */
export interface Uevent {
  /** `add`, `change`, `remove`, `bind`, `move`, … */
  readonly action: string
  /** Path below the sysfs root, such as `/devices/virtual/mem/null`. From outside: check before use. */
  readonly devpath: string
  /** As in the message: `SUBSYSTEM`, `DEVNAME`, `SEQNUM`, … */
  readonly properties: ReadonlyMap<string, string>
}

/** Why the devices of the machine may be others than before. */
export type Change =
  /** A gathered burst of events, in the order in which they came. */
  | { readonly kind: 'events'; readonly events: readonly Uevent[] }
  /** What changed is not known: look at everything. */
  | { readonly kind: 'rescan'; readonly reason: string }

/** Tells when devices come, go or change. One serves all Configurations. */
export interface DeviceMonitor {
  /**
   * Begins with a rescan, given only after it listens, so that nothing between the first look and the first event is
   * missed. Ends when the signal is aborted.
   */
  changes(signal: AbortSignal, log: Logger): AsyncIterable<Change>
}
