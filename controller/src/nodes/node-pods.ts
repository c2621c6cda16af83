import { GROUP, type NodeReport } from '@akrijs/api'
import { type ApiClient, listPages, type NodeName, PODS, Resource } from '@akrijs/kube'
import * as z from 'zod'
import type { FirstSights } from '../first-sights.js'
import { lenient } from '../kubernetes-objects.js'
import { AGENT_SELECTOR } from '../labels.js'

/** The time that Kubernetes gives a Pod whose `terminationGracePeriodSeconds` cannot be read. */
const DEFAULT_GRACE_SECONDS = 30

const container = z.object({
  resources: z
    .object({
      limits: z.record(z.string(), z.unknown()).nullish(),
      requests: z.record(z.string(), z.unknown()).nullish(),
    })
    .nullish()
    .catch(undefined),
})
const containers = z.array(container).nullish().catch(undefined)
const pods = z.array(
  z.object({
    metadata: lenient({
      namespace: z.string().catch(''),
      name: z.string().catch(''),
      uid: z.string().catch(''),
      deletionTimestamp: z.string().optional().catch(undefined),
      deletionGracePeriodSeconds: z.number().min(0).catch(DEFAULT_GRACE_SECONDS),
    }),
    spec: lenient({
      containers,
      initContainers: containers,
      volumes: z
        .array(z.object({ hostPath: z.unknown().optional() }))
        .nullish()
        .catch(undefined),
    }),
    status: lenient({ phase: z.string().catch('Unknown') }),
  }),
)
/** Pods on a page of a list. */
const PAGE_SIZE = 500

interface RequestContext {
  readonly client: ApiClient
  readonly signal: AbortSignal
}

interface DevicePod {
  readonly namespace: string
  readonly name: string
  readonly uid: string
  /** The `akri.sh` resources that its containers ask for. */
  readonly resources: ReadonlySet<string>
}

/**
 * The Pods of a node that ask for devices, except Pods that have ended. The list is requested when
 * needed: a watch on all Pods of a cluster would cost more.
 * @throws ApiError, ApiUnreachableError
 */
export async function* devicePodsOf(
  node: NodeName,
  context: RequestContext,
): AsyncGenerator<DevicePod> {
  for await (const { metadata, spec } of podsOf(node, {}, context)) {
    const { namespace, name, uid } = metadata
    const containers = [...(spec.containers ?? []), ...(spec.initContainers ?? [])]
    const names = containers.flatMap(({ resources }) =>
      Object.keys({ ...resources?.limits, ...resources?.requests }),
    )
    const resources = new Set(names.filter((each) => each.startsWith(`${GROUP}/`)))
    if (resources.size > 0) yield { namespace, name, uid, resources }
  }
}

/**
 * Whether another agent than that of the report is on its node, in any namespace. The Pods of
 * agents of the existing system have the same label, and directories of the node as all agents. Any
 * user can write the label; Pod security keeps directories of the node from users. At the end of
 * the grace period the kubelet has killed the agent, whatever keeps its Pod.
 * @throws ApiError, ApiUnreachableError
 */
export async function hasOtherAgent(
  { metadata: { name: node }, agentPod, agentNamespace }: NodeReport,
  sights: FirstSights,
  context: RequestContext,
): Promise<boolean> {
  for await (const { metadata, spec } of podsOf(node, { labelSelector: AGENT_SELECTOR }, context)) {
    const isReported =
      metadata.name === agentPod && metadata.namespace === (agentNamespace ?? metadata.namespace)
    const { uid, deletionTimestamp, deletionGracePeriodSeconds } = metadata
    const isOver =
      deletionTimestamp !== undefined &&
      sights.ageMs(`Pod ${uid}`, deletionTimestamp) >= deletionGracePeriodSeconds * 1000
    const hasDirectories = spec.volumes?.some(({ hostPath }) => hostPath !== undefined) === true
    if (!isReported && !isOver && hasDirectories) return true
  }
  return false
}

/** The Pods of a node, except Pods that have ended. */
async function* podsOf(
  node: NodeName,
  selectors: { readonly labelSelector?: string },
  { client, signal }: RequestContext,
): AsyncGenerator<z.output<typeof pods>[number]> {
  const path = new Resource(client, PODS).path()
  const query = { ...selectors, fieldSelector: `spec.nodeName=${node}` }
  const pages = listPages({ client, path, query, pageSize: PAGE_SIZE }, undefined, signal)
  for await (const { objects } of pages)
    for (const pod of pods.parse(objects))
      if (pod.status.phase !== 'Succeeded' && pod.status.phase !== 'Failed') yield pod
}
