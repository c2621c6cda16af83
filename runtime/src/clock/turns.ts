/** The longest work in one iteration of the event loop, in milliseconds. */
const TURN_MS = 5

/** End of the turn of this iteration; undefined before the first work. */
let end: number | undefined
/** Work that waits for a turn. */
const waiting: (() => void)[] = []
let isScheduled = false

/**
 * Whether long work has to wait for its next turn, so that other work of the process goes on:
 * health checks, and allocations. Long work asks before each of its small steps. All long work
 * together has one turn in an iteration of the event loop.
 */
export function isTurnOver(): boolean {
  const now = performance.now()
  if (end === undefined) {
    end = now + TURN_MS
    schedule()
  }
  return now >= end
}

/** Waits for a turn, after the work that waits already. */
export function nextTurn(): Promise<void> {
  schedule()
  return new Promise((resolve) => waiting.push(resolve))
}

/**
 * Gives the items of long work one after the other. Between two of them, other work of the process
 * goes on: health checks, allocations, timers.
 *
 * @example
 * const devices: Device[] = []
 * for await (const url of inTurns(details.urls)) devices.push({ id: url })
 * yield devices
 */
export async function* inTurns<T>(items: Iterable<T>): AsyncGenerator<T, void, void> {
  for (const item of items) {
    if (isTurnOver()) await nextTurn()
    yield item
  }
}

/**
 * The items in groups, for {@link inTurns}: where the work on an item takes less than a
 * microsecond, the wait for each item would take longer than the work.
 */
export function* slices<T>(items: Iterable<T>, size = 64): Generator<readonly T[], void, void> {
  let slice: T[] = []
  for (const item of items) {
    slice.push(item)
    if (slice.length < size) continue
    yield slice
    slice = []
  }
  if (slice.length > 0) yield slice
}

function schedule(): void {
  if (isScheduled) return
  isScheduled = true
  setImmediate(() => {
    isScheduled = false
    end = undefined
    waiting.shift()?.()
    if (waiting.length > 0) schedule()
  })
}
