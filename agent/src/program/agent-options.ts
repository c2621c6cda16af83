import { COMPATIBILITIES } from '@akrijs/api'
import {
  choice,
  directory,
  integer,
  kubeconfigOption,
  list,
  logLevelOption,
  metricsPortOption,
  nodeName,
  type OptionSpec,
  type OptionsOf,
  required,
  text,
} from '@akrijs/runtime/program'
import { handlerOption, handlerVariablesOption } from '@akrijs/sdk/handler-options'
import { readNetwork } from '@akrijs/sdk/network'
import { InvalidArgumentError } from 'commander'
import { readDeviceRule, readMountRule, readNameRule } from '../access/access-rules.js'
import { type DeviceNodes, HandlerAccess } from '../access/handler-access.js'
import { DEVICE_BOUNDS, RESOURCE_NAME_BOUNDS } from '../limits.js'

/** Accepts the texts that a function can read. */
function rule(read: (text: string) => unknown, right: string): (text: string) => string {
  return (text) => {
    if (read(text) !== undefined) return text
    throw new InvalidArgumentError(right)
  }
}

/** The options of `akri-agent`. The flags, the docs and the chart's values come from here. */
export const agentOptions = {
  node: required({
    argument: '<name>',
    meaning: 'the name of this node in the cluster',
    variable: 'AGENT_NODE_NAME',
    parse: nodeName,
  }),
  pod: text({
    argument: '<name>',
    meaning:
      'the name of the Pod of this agent, in the namespace of the controller; the controller ' +
      'counts the node as silent while this Pod is not ready, and without the name only while ' +
      'the Node is not ready',
    variable: 'POD_NAME',
  }),
  podNamespace: text({
    argument: '<name>',
    meaning:
      'the namespace of that Pod; with it, the controller removes the node from Instances some ' +
      'minutes after the last Pod of an agent has left the node',
    variable: 'POD_NAMESPACE',
  }),
  handlersDirectory: text({
    argument: '<path>',
    meaning: 'the directory that the agent shares with discovery handlers',
    variable: 'DISCOVERY_HANDLERS_DIRECTORY',
    default: '/var/lib/akri',
  }),
  handlersGroup: integer([1, 2 ** 32 - 2], {
    argument: '<gid>',
    meaning:
      'the group that may make sockets in that directory, for handlers that are not root; ' +
      'the agent must be a member',
    variable: 'AKRI_HANDLERS_GROUP',
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
      "the container runtime's socket: the agent reads allocations from annotations there; " +
      'without it the agent asks the kubelet',
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
  handlerMounts: list({
    argument: '<rule>',
    meaning:
      'a directory or file of the node that a handler may give to containers: ' +
      'HANDLER=PATH[:PATH IN THE CONTAINER][:ro or :rw], by default read-only; can be ' +
      'repeated, or a list with commas',
    variable: 'AKRI_HANDLER_MOUNTS',
    item: rule(readMountRule, 'write HANDLER=/path, HANDLER=/path:rw or HANDLER=/path:/path:rw'),
    chart: 'agent.handlerAccess.mounts',
  }),
  handlerDevices: list({
    argument: '<rule>',
    meaning:
      'device nodes that a handler may give to containers: HANDLER=PATH[:PATH IN THE ' +
      'CONTAINER][:PERMISSIONS], by default rwm; can be repeated, or a list with commas',
    variable: 'AKRI_HANDLER_DEVICES',
    item: rule(readDeviceRule, 'write HANDLER=/dev/name or HANDLER=/dev/name:rw'),
    defaultText: 'udev=/dev/**, usb=/dev/bus/usb/**',
    chart: 'agent.handlerAccess.devices',
  }),
  handlerAddresses: list({
    argument: '<network>',
    meaning:
      'addresses at which handlers may serve besides those of Pods on this node: an address ' +
      'or a network such as 10.1.0.0/16; can be repeated, or a list with commas',
    variable: 'AKRI_HANDLER_ADDRESSES',
    item: rule(readNetwork, 'write an address or a network such as 10.1.0.0/16'),
    chart: 'agent.handlerAccess.addresses',
  }),
  handlerEnvironment: list({
    argument: '<rule>',
    meaning:
      'names of properties that a handler may report: HANDLER=NAME; can be repeated, or a ' +
      'list with commas',
    variable: 'AKRI_HANDLER_ENVIRONMENT',
    item: rule(readNameRule, 'write HANDLER=NAME'),
    defaultText: 'the own names of built-in handlers; names that only describe devices',
    chart: 'agent.handlerAccess.environment',
  }),
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
  maxConfigurationDevices: integer([1, 100_000], {
    argument: '<count>',
    meaning: 'how many devices of one Configuration the agent serves at most',
    variable: 'AKRI_MAX_CONFIGURATION_DEVICES',
    default: DEVICE_BOUNDS.perConfiguration,
    chart: 'env',
  }),
  maxDevices: integer([1, 100_000], {
    argument: '<count>',
    meaning:
      'how many devices of all Configurations the agent serves at most; those of one namespace ' +
      'have half',
    variable: 'AKRI_MAX_DEVICES',
    default: DEVICE_BOUNDS.perNode,
    chart: 'env',
  }),
  maxSlots: integer([1, 1_000_000], {
    argument: '<count>',
    meaning:
      'how many slots the devices that the agent serves have at most; those of one namespace ' +
      'have half',
    variable: 'AKRI_MAX_SLOTS',
    default: DEVICE_BOUNDS.slots,
    chart: 'env',
  }),
  maxResourceNames: integer([1, 10_000], {
    argument: '<count>',
    meaning:
      'how many names of akri.sh resources the Node may have, with those that nothing ' +
      'offers any more, before the agent offers no new ones',
    variable: 'AKRI_MAX_RESOURCE_NAMES',
    default: RESOURCE_NAME_BOUNDS.most,
    chart: 'env',
  }),
  newResourceNames: integer([1, 100_000], {
    argument: '<count>',
    meaning:
      'how many names of resources that the Node never had the agent offers for one ' +
      'Configuration in an hour, after as many at once as it may serve devices',
    variable: 'AKRI_NEW_RESOURCE_NAMES',
    default: RESOURCE_NAME_BOUNDS.perHour,
    chart: 'env',
  }),
  slotGrace: integer([1, 86_400], {
    argument: '<seconds>',
    meaning:
      'how long a claimed slot of an existing Pod can be without a container before the ' +
      'agent releases it; 20, with --cri-socket 300',
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
  compatibility: choice(COMPATIBILITIES, {
    argument: '<system>',
    meaning:
      'the other system whose agents run on other nodes: write slots and ids in the form that ' +
      'they read',
    variable: 'AKRI_COMPATIBILITY',
    default: 'off',
    chart: 'compatibility',
  }),
  logLevel: logLevelOption('agent.logLevel'),
}

export type AgentProgramOptions = OptionsOf<typeof agentOptions>

/** What handlers may give to containers, by the rules of the operator. */
export function handlerAccess(options: AgentProgramOptions, paths: DeviceNodes): HandlerAccess {
  const { handlerMounts, handlerDevices, handlerEnvironment } = agentOptions
  const nameOf = ({ variable, chart }: OptionSpec<unknown>) => `${variable} (chart: ${chart})`
  return new HandlerAccess({
    paths,
    rules: {
      mounts: options.handlerMounts,
      devices: options.handlerDevices,
      environment: options.handlerEnvironment,
    },
    options: {
      mounts: nameOf(handlerMounts),
      devices: nameOf(handlerDevices),
      environment: nameOf(handlerEnvironment),
    },
  })
}

/** Longer with the container runtime: a container that restarts is absent there for a while. */
export function slotGraceMs({ slotGrace, criSocket }: AgentProgramOptions): number {
  return (slotGrace ?? (criSocket === undefined ? 20 : 300)) * 1000
}
