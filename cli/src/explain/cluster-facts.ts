import { type PodText, podDemand } from '@akrijs/agent'
import { GROUP, NODE_REPORTS, type NodeReport, parseNodeReport } from '@akrijs/api'
import {
  type ApiClient,
  ApiError,
  listPages,
  NODES,
  type ObjectKey,
  objectKey,
  PODS,
  Resource,
  type ResourceKind,
} from '@akrijs/kube'
import { valueAt } from '@akrijs/runtime'
import * as z from 'zod'

/** A node, with what its kubelet offers of akri.js. */
export interface NodeFacts {
  readonly name: string
  readonly isReady: boolean
  /** The number that the kubelet offers, by the name of the resource. */
  readonly offered: ReadonlyMap<string, number>
  /** Undefined if no agent has written one. */
  readonly report: NodeReport | undefined
  /** The Pod of the agent there. */
  readonly agent: PodFacts | undefined
}

export interface PodFacts {
  readonly key: ObjectKey
  /** Empty while it is not scheduled. */
  readonly node: string
  readonly phase: string
  readonly isReady: boolean
  /** Why the Pod does not run, in the words of the cluster; empty if nothing says it. */
  readonly why: string
  /** The devices that it asks for, by the name of the resource. */
  readonly asks: ReadonlyMap<string, number>
}

/** What `akri explain` reads of a cluster. */
export interface ClusterFacts {
  readonly nodes: readonly NodeFacts[]
  /** Those that ask for devices and have not ended. */
  readonly pods: readonly PodFacts[]
}

/** The objects of one list, as kubectl asks for them. */
const PAGE = 500
const AGENTS = 'app.kubernetes.io/name=akri-agent'

const text = z.string().catch('')
const condition = z.object({ type: text, status: text, reason: text, message: text })
const conditions = z.array(condition).catch([])
const node = z.object({
  metadata: z.object({ name: z.string() }),
  status: z.object({ allocatable: z.record(z.string(), text).catch({}), conditions }),
})
const pod = z.object({
  metadata: z.object({ name: z.string(), namespace: z.string() }),
  spec: z.object({ nodeName: text }),
  status: z
    .object({
      ...{ phase: text, reason: text, message: text, conditions },
      containerStatuses: z
        .array(
          z.object({
            state: z.object({
              waiting: z.object({ reason: text, message: text }).optional(),
            }),
          }),
        )
        .catch([]),
    })
    .catch({ phase: '', reason: '', message: '', conditions: [], containerStatuses: [] }),
})

/** @throws ApiError, ApiUnreachableError */
export async function readFacts(
  client: ApiClient,
  namespace: string,
  signal: AbortSignal,
): Promise<ClusterFacts> {
  const list = async (kind: ResourceKind, from = '', labelSelector?: string) => {
    const path = new Resource(client, kind).path(from)
    const query = labelSelector === undefined ? {} : { labelSelector }
    const objects: unknown[] = []
    for await (const page of listPages({ client, path, query, pageSize: PAGE }, undefined, signal))
      objects.push(...page.objects)
    return objects
  }
  // Who may read one namespace only still sees the Pods there.
  const ofAll = (kind: ResourceKind, labelSelector?: string) =>
    list(kind, '', labelSelector).catch((error: unknown) => {
      if (!ApiError.is(error, 403)) throw error
      return list(kind, namespace, labelSelector)
    })
  const [nodes, reports, pods, agents] = await Promise.all([
    list(NODES),
    list(NODE_REPORTS),
    ofAll(PODS),
    ofAll(PODS, AGENTS),
  ])
  const read = reports.flatMap((report) => parseNodeReport(report) ?? [])
  const agentPods = agents.flatMap((each) => podFacts(each) ?? [])
  return {
    nodes: nodes.flatMap((each) => nodeFacts(each, read, agentPods) ?? []),
    pods: pods
      .flatMap((each) => podFacts(each) ?? [])
      .filter(({ asks, phase }) => asks.size > 0 && phase !== 'Succeeded'),
  }
}

function nodeFacts(
  object: unknown,
  reports: readonly NodeReport[],
  agents: readonly PodFacts[],
): NodeFacts | undefined {
  const { data } = node.safeParse(object)
  if (data === undefined) return undefined
  const { name } = data.metadata
  const offered = Object.entries(data.status.allocatable)
    .filter(([resource]) => resource.startsWith(`${GROUP}/`))
    .map(([resource, quantity]) => [resource, Number(quantity)] as const)
  return {
    name,
    isReady: isTrue(data.status.conditions, 'Ready'),
    offered: new Map(offered),
    report: reports.find(({ metadata }) => metadata.name === name),
    agent: agents.find((agent) => agent.node === name),
  }
}

/** @returns undefined if the value is no Pod */
export function podFacts(object: unknown): PodFacts | undefined {
  const { data } = pod.safeParse(object)
  if (data === undefined) return undefined
  const { metadata, spec, status } = data
  return {
    key: objectKey(metadata.namespace, metadata.name),
    node: spec.nodeName,
    phase: status.phase,
    isReady: isTrue(status.conditions, 'Ready'),
    why: whyOf(status),
    asks: podDemand({ spec: valueAt(object, 'spec'), status } as PodText),
  }
}

/** What the kubelet says, else why no container runs, else what the scheduler says. */
function whyOf(status: z.output<typeof pod>['status']): string {
  const { reason, message } = status
  if (reason !== '' || message !== '') return textOf({ reason, message })
  const waiting = status.containerStatuses.flatMap(({ state }) => state.waiting ?? [])[0]
  if (waiting !== undefined) return textOf(waiting)
  const scheduled = status.conditions.find(({ type }) => type === 'PodScheduled')
  return scheduled?.status === 'False' ? textOf(scheduled) : ''
}

function textOf({ reason, message }: { readonly reason: string; readonly message: string }) {
  return [reason, message].filter((part) => part !== '').join(': ')
}

function isTrue(found: readonly z.output<typeof condition>[], type: string): boolean {
  return found.some((each) => each.type === type && each.status === 'True')
}
