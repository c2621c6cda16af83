import { jsonWithoutPasswords } from '@akrijs/api'
import { ApiError, keyParts, NODES, Resource } from '@akrijs/kube'
import { isRecord } from '@akrijs/runtime'
import type { ExaminedCluster } from './examined-cluster.js'

/** The Pods whose logs are in a bundle, and the lines of each. */
const MAX_LOGS = 20
const LOG_LINES = 500

/**
 * What a report of a bug needs, as JSON: the findings, the objects of akri.js as `akri get` shows
 * them, the states of nodes and programs, and the ends of the logs of programs. Secrets are not
 * read, and passwords are masked. A part that this user may not read has the answer in its place.
 */
export async function bundleOf(cluster: ExaminedCluster, findings: object): Promise<string> {
  const { objects, client } = cluster
  const parts = {
    configurations: () => objects.configurations(),
    instances: () => objects.instances(),
    nodeReports: () => objects.nodes(),
    events: () => objects.events(),
    nodes: async () =>
      (await cluster.list(new Resource(client, NODES).path())).map(withoutOtherParts),
    programs: async () => (await cluster.programs()).map(({ asks: _, ...pod }) => pod),
    logs: () => logsOf(cluster),
  }
  const read = await Promise.all(
    Object.entries(parts).map(async ([name, part]) => [name, await part().catch(answerOf)]),
  )
  const bundle = { findings, ...(Object.fromEntries(read) as object) }
  return `${JSON.stringify(JSON.parse(jsonWithoutPasswords(bundle)), undefined, 2)}\n`
}

/** A Node without its addresses, images and annotations. */
function withoutOtherParts(node: unknown): unknown {
  const { metadata, status } = { metadata: {}, status: {}, ...(isRecord(node) ? node : {}) }
  const { name, labels, uid } = isRecord(metadata) ? metadata : {}
  const { allocatable, capacity, conditions, nodeInfo } = isRecord(status) ? status : {}
  return { name, uid, labels, allocatable, capacity, conditions, nodeInfo }
}

async function logsOf(cluster: ExaminedCluster): Promise<Record<string, unknown>> {
  const pods = (await cluster.programs()).slice(0, MAX_LOGS)
  const logs = await Promise.all(
    pods.map(async ({ key }) => [key, await logOf(key, cluster).catch(answerOf)] as const),
  )
  return Object.fromEntries(logs)
}

async function logOf(
  key: Parameters<typeof keyParts>[0],
  { client, objects }: ExaminedCluster,
): Promise<string[]> {
  const { namespace, name } = keyParts(key)
  const path = `/api/v1/namespaces/${namespace}/pods/${name}/log`
  const query = { tailLines: LOG_LINES }
  const lines: string[] = []
  for await (const line of client.lines({ method: 'GET', path, query }, objects.signal))
    lines.push(line)
  return lines
}

function answerOf(error: unknown): string {
  if (!ApiError.is(error)) throw error
  return error.message
}
