import {
  choice,
  directory,
  handlerOption,
  handlerVariablesOption,
  integer,
  kubeconfigOption,
  logLevelOption,
  metricsPortOption,
  nodeName,
  type OptionsOf,
  required,
  text,
} from '@akrijs/runtime/program'

/** The options of `akri-agent`. The flags, the docs and the chart's values come from here. */
export const agentOptions = {
  node: required({
    argument: '<name>',
    meaning: 'the name of this node in the cluster',
    variable: 'AGENT_NODE_NAME',
    parse: nodeName,
  }),
  handlersDirectory: text({
    argument: '<path>',
    meaning: 'the directory that the agent shares with discovery handlers',
    variable: 'DISCOVERY_HANDLERS_DIRECTORY',
    default: '/var/lib/akri',
  }),
  pluginDirectory: text({
    argument: '<path>',
    meaning: "the kubelet's directory of device plugins",
    variable: 'KUBELET_PLUGIN_DIRECTORY',
    default: '/var/lib/kubelet/device-plugins',
  }),
  podResourcesSocket: text({
    argument: '<path>',
    meaning: "the kubelet's socket of Pod resources",
    variable: 'KUBELET_POD_RESOURCES_SOCKET',
    default: '/var/lib/kubelet/pod-resources/kubelet.sock',
  }),
  criSocket: text({
    argument: '<path>',
    meaning:
      "the container runtime's socket: the agent reads allocations from annotations there; without it the agent asks the kubelet",
    variable: 'AKRI_CRI_SOCKET',
  }),
  stateDirectory: directory({
    argument: '<path>',
    meaning: 'the directory of what survives a restart of the agent',
    variable: 'AKRI_STATE_DIRECTORY',
    default: '/var/lib/akri-agent',
  }),
  brokerInfo: choice(['on', 'off'], {
    argument: '<switch>',
    meaning: 'whether containers get a directory for their reports',
    variable: 'AKRI_BROKER_INFO',
    default: 'on',
    chart: 'env',
  }),
  handler: handlerOption('a handler to load into the agent', {
    variable: 'AKRI_HANDLERS',
    chart: 'agent.handlers',
  }),
  isolated: choice(['on', 'off'], {
    argument: '[switch]',
    meaning: 'run each of these handlers in a process of its own',
    variable: 'AKRI_ISOLATED',
    preset: 'on',
    default: 'off',
    chart: 'env',
  }),
  handlerVariables: handlerVariablesOption({ chart: 'env' }),
  kubeconfig: kubeconfigOption,
  metricsPort: metricsPortOption('agent.metricsPort'),
  unhealthyAfter: integer([0, 86_400], {
    argument: '<seconds>',
    meaning: 'how long the agent offers a device whose handler does not answer',
    variable: 'AKRI_UNHEALTHY_AFTER',
    default: 30,
    chart: 'env',
  }),
  removeAfter: integer([0, 604_800], {
    argument: '<seconds>',
    meaning: 'how long the agent keeps such a device',
    variable: 'AKRI_REMOVE_AFTER',
    default: 300,
    chart: 'env',
  }),
  slotGrace: integer([1, 86_400], {
    argument: '<seconds>',
    meaning:
      'how long a claimed slot of an existing Pod can be without a container before the agent releases it; 20, with --cri-socket 300',
    variable: 'AKRI_SLOT_GRACE',
    chart: 'env',
  }),
  slotHandover: integer([0, 3_600], {
    argument: '<seconds>',
    meaning: 'how long a slot that another node released stays reserved for that node',
    variable: 'AKRI_SLOT_HANDOVER',
    default: 15,
    chart: 'env',
  }),
  logLevel: logLevelOption('agent.logLevel'),
}

export type AgentProgramOptions = OptionsOf<typeof agentOptions>

/** Longer with the container runtime: a container that restarts is absent there for a while. */
export function slotGraceMs({
  slotGrace,
  criSocket,
}: Pick<AgentProgramOptions, 'slotGrace' | 'criSocket'>): number {
  return (slotGrace ?? (criSocket === undefined ? 20 : 300)) * 1000
}
