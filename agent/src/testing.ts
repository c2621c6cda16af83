// `@akrijs/agent/testing`: the kubelet as device plugins meet it.
export type { ContainerAllocation, ContainerOptions, SimulatedContainer, SimulatedPod } from './simulated-kubelet/pod.js'
export { type ResourceState, SimulatedKubelet, type SimulatedKubeletOptions } from './simulated-kubelet/simulated-kubelet.js'
