import type { ObjectEvent } from '@akrijs/kube'
import { type Clock, Listeners, objectMessage } from '@akrijs/runtime'

export interface RecordedEvent extends ObjectEvent {
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
  readonly #listeners = new Listeners<[regarding: ObjectEvent['regarding']]>()

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
    this.#listeners.tell(event.regarding)
    const [oldest] = this.#events
    if (this.#events.size <= MAX_EVENTS || oldest === undefined) return
    const [oldestKey, { regarding }] = oldest
    this.#events.delete(oldestKey)
    this.#listeners.tell(regarding)
  }

  /** @param listener gets the object of each Event that comes or goes */
  onChange(listener: (regarding: ObjectEvent['regarding']) => void, signal: AbortSignal): void {
    this.#listeners.add(listener, signal)
  }

  list(): readonly RecordedEvent[] {
    return [...this.#events.values()]
  }
}
