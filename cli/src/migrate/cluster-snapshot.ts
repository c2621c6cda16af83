import {
  CONFIGURATIONS,
  INSTANCES,
  NODE_REPORTS,
  type NodeReport,
  parseNodeReport,
} from '@akrijs/api'
import { type ApiClient, ApiError, listPages, type NodeName, PODS, Resource } from '@akrijs/kube'
import * as z from 'zod'
import type { ProgramPod } from './migration-plan.js'

/** What a plan is made from. Configurations and Instances are as the API server returns them. */
export interface ClusterSnapshot {
  readonly configurations: readonly unknown[]
  readonly instances: readonly unknown[]
  readonly reports: readonly NodeReport[]
  /** The Pods of agents and controllers that have not ended. */
  readonly programs: readonly ProgramPod[]
}

/** The objects of one list, as kubectl asks for them. */
const PAGE = 500

const pod = z.object({
  metadata: z.object({ namespace: z.string(), name: z.string() }),
  spec: z.object({ nodeName: z.string().catch('') }),
  status: z.object({ phase: z.string().catch('Unknown') }).catch({ phase: 'Unknown' }),
})

/** @throws ApiError, ApiUnreachableError */
export async function readCluster(
  client: ApiClient,
  signal: AbortSignal,
): Promise<ClusterSnapshot> {
  const list = (kind: typeof PODS, labelSelector?: string) =>
    listAll(client, new Resource(client, kind).path(), labelSelector, signal)
  const programs: ProgramPod[] = []
  for (const program of ['agent', 'controller'] as const)
    for (const object of await list(PODS, `app.kubernetes.io/name=akri-${program}`)) {
      const { data } = pod.safeParse(object)
      if (data === undefined || ['Succeeded', 'Failed'].includes(data.status.phase)) continue
      programs.push({ program, ...data.metadata, node: data.spec.nodeName as NodeName | '' })
    }
  // The existing system has no reports.
  const reports = await list(NODE_REPORTS).catch((error: unknown) => {
    if (!ApiError.is(error, 404)) throw error
    return []
  })
  return {
    configurations: await list(CONFIGURATIONS),
    instances: await list(INSTANCES),
    reports: reports.flatMap((report) => parseNodeReport(report) ?? []),
    programs,
  }
}

/** Lists the newest objects of all namespaces. */
async function listAll(
  client: ApiClient,
  path: string,
  labelSelector: string | undefined,
  signal: AbortSignal,
): Promise<unknown[]> {
  const objects: unknown[] = []
  const query = labelSelector === undefined ? {} : { labelSelector }
  const pages = listPages({ client, path, query, pageSize: PAGE }, undefined, signal)
  for await (const page of pages) objects.push(...page.objects)
  return objects
}
