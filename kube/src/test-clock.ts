import type { ApiClock } from './clock.js'

/** A clock that a test lets go on, such as ManualClock of `@akrijs/sdk/testing`. */
export interface TestClock extends ApiClock {
  advance(ms: number): Promise<void>
}
