// `@akrijs/sdk/testing`: a simulated agent and a clock for the tests of a handler.
export { ManualClock } from '@akrijs/runtime/testing'
export {
  type DiscoverOptions,
  DiscoveryEndedError,
  type Registration,
  SimulatedAgent,
  type SimulatedAgentOptions,
  SimulatedDiscovery,
} from './testing/simulated-agent.js'
