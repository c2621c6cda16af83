/**
 * `@akrijs/sdk/testing`: discoveries in the process or by a simulated agent, and a clock, for the
 * tests of a handler.
 * @module testing
 */
export { ManualClock } from '@akrijs/runtime/testing'
export { DiscoveryEndedError } from './testing/errors.js'
export {
  discover,
  InProcessDiscovery,
  type InProcessOptions,
} from './testing/in-process-discovery.js'
export {
  type DiscoverOptions,
  type Registration,
  SimulatedAgent,
  type SimulatedAgentOptions,
  SimulatedDiscovery,
} from './testing/simulated-agent.js'
