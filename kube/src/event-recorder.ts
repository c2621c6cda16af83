import { randomBytes } from 'node:crypto'
import { type Clock, objectMessage } from '@akrijs/runtime'
import type { ApiClient } from './api-client.js'
import { ApiError } from './errors.js'
import { EventBudget } from './event-budget.js'
import { EVENTS } from './kinds.js'
import { keyParts, type ObjectEvent, objectKey } from './objects.js'
import { Resource } from './resource.js'

interface EventRecorderOptions {
  readonly client: ApiClient
  readonly clock: Clock
  /** An Event could not be written, and is dropped. */
  onError(error: unknown): void
  /** The group and version of the objects that Events regard, such as `akri.sh/v0`. */
  readonly apiVersion: string
  /** The component that Events come from. */
  readonly source: string
  readonly host: string
}

interface Recorded {
  readonly name: string
  count: number
  lastAt: number
}

interface Waiting {
  readonly event: ObjectEvent
  readonly uid: string | undefined
}

/**
 * Equal Events raise a count within this time, in milliseconds: a server deletes an Event after an
 * hour.
 */
const FOLD_MS = 30 * 60_000
/** The most Events that are remembered, and the most that wait. */
const MAX_EVENTS = 200
/** The most Events of a namespace that wait. */
const MAX_OF_NAMESPACE = 100

/** The longest name of an object, in characters. */
const MAX_NAME = 253

/** A name that no other Event has: the name of the object, and a random number. */
function eventName(object: string): string {
  const end = `.${randomBytes(8).toString('hex')}`
  return `${object.slice(0, MAX_NAME - end.length).replace(/[-.]+$/, '')}${end}`
}

/**
 * Writes Events. An Event that repeats raises a count. Events beyond a budget of their namespace
 * are dropped: old news helps no one.
 */
export class EventRecorder {
  readonly #options: EventRecorderOptions
  readonly #api: Resource
  readonly #recorded = new Map<string, Recorded>()
  readonly #waiting: Waiting[] = []
  /** Two budgets: Events that repeat must not take the place of news. */
  readonly #news: EventBudget
  readonly #repetitions: EventBudget
  #wake: () => void = () => {}

  constructor(options: EventRecorderOptions) {
    this.#options = options
    this.#api = new Resource(options.client, EVENTS)
    this.#news = new EventBudget(options.clock)
    this.#repetitions = new EventBudget(options.clock)
  }

  /** @param uid of the object, unless the Event has it */
  record(event: ObjectEvent, uid: string | undefined): void {
    if (this.#waiting.length >= MAX_EVENTS) return
    const { namespace } = keyParts(event.regarding.key)
    const ofNamespace = this.#waiting.filter(
      (waiting) => keyParts(waiting.event.regarding.key).namespace === namespace,
    )
    if (ofNamespace.length >= MAX_OF_NAMESPACE) return
    this.#waiting.push({
      event: { ...event, message: objectMessage(event.message) },
      uid: event.regarding.uid ?? uid,
    })
    this.#wake()
  }

  async run(signal: AbortSignal): Promise<void> {
    signal.addEventListener('abort', () => this.#wake(), { once: true })
    while (!signal.aborted) {
      const next = this.#waiting.shift()
      if (next === undefined) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve
        })
        continue
      }
      await this.#write(next, signal).catch((error: unknown) => {
        if (!signal.aborted) this.#options.onError(error)
      })
    }
  }

  async #write({ event, uid }: Waiting, signal: AbortSignal): Promise<void> {
    const { clock } = this.#options
    const { regarding, type, reason, message } = event
    const identity = JSON.stringify([regarding, uid, type, reason, message])
    const recorded = this.#recorded.get(identity)
    const { namespace } = keyParts(regarding.key)
    const lastTimestamp = `${new Date(clock.wallMs()).toISOString().slice(0, 19)}Z`
    if (recorded !== undefined && clock.monotonicMs() - recorded.lastAt < FOLD_MS) {
      recorded.count++
      recorded.lastAt = clock.monotonicMs()
      // The next count that is written has this repetition too.
      if (!this.#repetitions.take(namespace)) return
      const patch = { count: recorded.count, lastTimestamp }
      try {
        await this.#api.patch(objectKey(namespace, recorded.name), 'merge', patch, { signal })
        return
      } catch (error) {
        // The server has deleted the Event: create another.
        if (!ApiError.is(error, 404)) throw error
      }
    }
    if (!this.#news.take(namespace)) return
    const object = this.#object(event, uid, namespace, lastTimestamp)
    await this.#api.create(namespace, object, { signal })
    const { name } = object.metadata
    this.#recorded.delete(identity)
    this.#recorded.set(identity, { name, count: 1, lastAt: clock.monotonicMs() })
    const [oldest] = this.#recorded.keys()
    if (this.#recorded.size > MAX_EVENTS && oldest !== undefined) this.#recorded.delete(oldest)
  }

  #object(
    { regarding, type, reason, message }: ObjectEvent,
    uid: string | undefined,
    namespace: string,
    timestamp: string,
  ) {
    const { apiVersion, source, host } = this.#options
    const { name } = keyParts(regarding.key)
    return {
      apiVersion: 'v1',
      kind: 'Event',
      metadata: { namespace, name: eventName(name) },
      involvedObject: {
        apiVersion: regarding.apiVersion ?? apiVersion,
        kind: regarding.kind,
        namespace,
        name,
        uid,
      },
      type,
      reason,
      message,
      source: { component: source, host },
      reportingComponent: source,
      reportingInstance: host,
      count: 1,
      firstTimestamp: timestamp,
      lastTimestamp: timestamp,
    }
  }
}
