// `@akrijs/sdk/testing`: what the tests of a handler need.
export { ManualClock } from '@akrijs/runtime/testing'
export {
  type DiscoverOptions,
  DiscoveryEndedError,
  type Registration,
  SimulatedAgent,
  type SimulatedAgentOptions,
  SimulatedDiscovery,
} from './testing/simulated-agent.js'
