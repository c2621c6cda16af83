import { type Clock, TokenBucket } from '@akrijs/runtime'

/** How much all workloads of a node together may make the agent write: however many write in a loop, an API server has rest. */
export function writeBudget(clock: Clock): TokenBucket {
  return new TokenBucket({ clock, burst: 100, refillMs: 100 })
}
