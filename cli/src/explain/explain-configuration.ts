import {
  type Configuration,
  GROUP,
  NO_HANDLER,
  type NodeStatus,
  possibleOwner,
  stateText,
} from '@akrijs/api'
import { keyOf, keyParts, type ObjectKey } from '@akrijs/kube'
import { formatMessages, formatTable } from '../view/table.js'
import type { ClusterFacts, NodeFacts, PodFacts } from './cluster-facts.js'

/** A node, with what its agent reports of the Configuration. */
interface NodeOfConfiguration extends NodeFacts {
  readonly status: NodeStatus | undefined
}

/** Why a Configuration has its devices or none, node by node. The last line is the next step. */
export function explainConfiguration(
  configuration: Configuration,
  { nodes: all, pods }: ClusterFacts,
): string[] {
  const { metadata } = configuration
  const key = keyOf(configuration)
  const resource = `${GROUP}/${metadata.name}`
  const nodes = all.map((node) => ({
    ...node,
    status: new Map(Object.entries(node.report?.configurations ?? {})).get(key),
  }))
  const problems = nodes.flatMap(problemsOf)
  const waiting = pods.filter(
    ({ asks, phase }) =>
      phase !== 'Running' && [...asks.keys()].some((each) => isOf(each, metadata.name)),
  )
  return [
    `Configuration ${key}: ${stateText(configuration)}`,
    '',
    ...formatTable(
      ['NODE', 'AGENT', 'HANDLER', 'DETAILS', 'READY', 'DEVICES', 'OFFERED'],
      nodes.map((node) => [
        node.name,
        agentText(node),
        stateOf(node, 'HandlerConnected'),
        stateOf(node, 'Discovering'),
        stateOf(node, 'Ready'),
        String(node.status?.devices ?? '-'),
        String(node.offered.get(resource) ?? '-'),
      ]),
    ).split('\n'),
    ...(problems.length > 0 ? ['', ...formatMessages(['NODE', 'PROBLEM'], problems)] : []),
    ...(waiting.length > 0 ? ['', ...podLines(waiting)] : []),
    '',
    `Next step: ${nextStep(configuration, nodes, resource, waiting)}`,
  ]
}

/** Whether a resource is that of the Configuration, or of one of its Instances. */
function isOf(resource: string, configuration: string): boolean {
  const name = resource.slice(GROUP.length + 1)
  return name === configuration || possibleOwner(name) === configuration
}

function podLines(pods: readonly PodFacts[]): string[] {
  const rows = pods.map(({ key, phase, node, why }) => [key, phase, node || '-', why])
  return formatMessages(['POD', 'PHASE', 'NODE', 'WHY'], rows)
}

function agentText({ agent, report, isReady }: NodeFacts): string {
  if (!isReady) return 'node not ready'
  if (agent !== undefined) return agent.isReady ? 'running' : 'not ready'
  // An agent can run outside of a Pod.
  return report === undefined ? 'none' : 'no Pod'
}

function conditionOf({ status }: NodeOfConfiguration, type: string) {
  return status?.conditions.find((each) => each.type === type)
}

function stateOf(node: NodeOfConfiguration, type: string): string {
  const condition = conditionOf(node, type)
  if (condition === undefined) return '-'
  return condition.status === 'True' ? 'yes' : condition.reason
}

function problemsOf(node: NodeOfConfiguration): [string, string][] {
  const messages = new Set<string>()
  for (const type of ['HandlerConnected', 'Discovering', 'Ready']) {
    const condition = conditionOf(node, type)
    // What the handler saw and left out is in the message of a node that is ready.
    const isShort = condition !== undefined && SHORT.has(condition.reason)
    if (condition !== undefined && (condition.status !== 'True' || isShort))
      messages.add(condition.message)
  }
  if (node.agent !== undefined && !node.agent.isReady) messages.add(agentProblem(node.agent))
  return [...messages].map((message) => [node.name, message])
}

/** The reasons of a node that is ready and offers less than its handler saw. */
const SHORT = new Set(['NoDevices', 'DevicesLeftOut'])

function agentProblem({ key, phase, why }: PodFacts): string {
  return `the agent ${key} is ${phase}${why === '' ? '' : `: ${why}`}`
}

function nextStep(
  configuration: Configuration,
  nodes: readonly NodeOfConfiguration[],
  resource: string,
  [waiting]: readonly PodFacts[],
): string {
  const { metadata, spec, status } = configuration
  const handler = spec.discoveryHandler?.name
  const isInvalid = status?.conditions.some(({ reason }) => reason === 'InvalidConfiguration')
  if (isInvalid)
    return (
      'correct the field that the message names: ' +
      `kubectl -n ${metadata.namespace} edit akric ${metadata.name}`
    )
  if (nodes.every((node) => agentText(node) === 'none'))
    return 'no agent runs: install akri.js (docs/helm.md), or see why its DaemonSet has no Pods'
  const broken = nodes.find(({ agent }) => agent?.isReady === false)?.agent
  if (broken !== undefined)
    return `see why an agent is not ready: kubectl -n ${podArguments('describe', broken.key)}`
  const reporting = nodes.filter(({ status: found }) => found !== undefined)
  if (reporting.length === 0)
    return 'wait a few seconds; if no node reports it then, read the logs of the agents'
  if (reporting.every((node) => stateOf(node, 'HandlerConnected') === NO_HANDLER))
    return (
      `start the handler ${handler}, by a value of the chart or a DaemonSet of your own ` +
      '(docs/operators.md#handlers); akri get handlers shows it then'
    )
  const failed = reporting.find((node) => conditionOf(node, 'Ready')?.status === 'False')
  if (failed !== undefined)
    return (
      `remove the cause that ${failed.name} names above; ` +
      'docs/watching.md#conditions-of-a-configuration has all reasons'
    )
  const unoffered = reporting.find(
    ({ status: found, offered }) =>
      (found?.devices ?? 0) > 0 && spec.offer !== 'instance' && !offered.get(resource),
  )
  if (unoffered !== undefined)
    return (
      `see whether all slots are in use: akri slots ${metadata.name}; if not, read the log of ` +
      `the agent of ${unoffered.name}, whose kubelet offers nothing`
    )
  if (waiting !== undefined) return `akri explain pod ${keyParts(waiting.key).name}`
  if (reporting.every(({ status: found }) => found?.devices === 0))
    return `run akri discover ${handler} with these details on a node that should see devices`
  return 'none: the devices are offered'
}

/** Such as `akri describe pod agent-a`, after `kubectl -n`. */
function podArguments(verb: string, key: ObjectKey): string {
  const { namespace, name } = keyParts(key)
  return `${namespace} ${verb} pod ${name}`
}
