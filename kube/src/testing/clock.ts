import type { Clock } from '@akrijs/runtime'

/** A clock that a test lets go on, such as ManualClock of `@akrijs/sdk/testing`. */
export interface TestClock extends Clock {
  advance(ms: number): Promise<void>
}
