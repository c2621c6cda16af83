import { AsyncLocalStorage } from 'node:async_hooks'
import { type Clock, systemClock } from './clock.js'

/** Shared by all installed copies of akri.js: a handler and its test can have a copy each. */
const KEY = Symbol.for('akri.clocks')

/**
 * The clock of the work that asks: of the discovery that a test runs with a clock of its own,
 * otherwise {@link systemClock}. `every`, `withTimeLimit` and `deviceMap` use this clock. So does a
 * handler that calls `currentClock().sleep` instead of a timer.
 *
 * @example
 * const clock = currentClock()
 * const begunAt = clock.monotonicMs()
 * yield await listSensors(details.url, signal)
 * log.info({ ms: clock.monotonicMs() - begunAt }, 'the hub has answered')
 */
export function currentClock(): Clock {
  return clocks().getStore() ?? systemClock
}

/** Runs work, and all that the work starts, with a clock. */
export function runWithClock<T>(clock: Clock, work: () => T): T {
  return clocks().run(clock, work)
}

function clocks(): AsyncLocalStorage<Clock> {
  const found: unknown = Reflect.get(globalThis, KEY)
  if (found instanceof AsyncLocalStorage) return found
  const created = new AsyncLocalStorage<Clock>()
  Object.defineProperty(globalThis, KEY, { value: created })
  return created
}
