import type { ObjectEvent } from '@akrijs/kube'
import { type Clock, objectMessage } from '@akrijs/runtime'

interface RecordedEvent extends ObjectEvent {
  readonly count: number
  readonly firstTimestamp: string
  readonly lastTimestamp: string
}

/** The most different events that are kept. */
const MAX_EVENTS = 500

/** The latest Events. A repeated Event raises the count of the first. */
export class EventLog {
  readonly #clock: Clock
  readonly #events = new Map<string, RecordedEvent>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  record(event: ObjectEvent): void {
    const message = objectMessage(event.message)
    const key = JSON.stringify([event.regarding, event.reason, message])
    const now = new Date(this.#clock.wallMs()).toISOString()
    const before = this.#events.get(key)
    // The newest moves to the end, so that the oldest is evicted.
    this.#events.delete(key)
    this.#events.set(key, {
      ...event,
      message,
      count: (before?.count ?? 0) + 1,
      firstTimestamp: before?.firstTimestamp ?? now,
      lastTimestamp: now,
    })
    const [oldest] = this.#events.keys()
    if (this.#events.size > MAX_EVENTS && oldest !== undefined) this.#events.delete(oldest)
  }

  list(): readonly RecordedEvent[] {
    return [...this.#events.values()]
  }
}
