import { type ApiClient, NODES, type NodeName, objectKey, Resource } from '@akrijs/kube'
import * as z from 'zod'

const quantities = z.record(z.string(), z.unknown()).optional()
const node = z.object({ status: z.object({ capacity: quantities, allocatable: quantities }) })

/**
 * The names of all resources in the status of a Node, also of those that nothing offers any more.
 * @returns undefined if there is no such Node
 */
export async function nodeResourceNames(
  client: ApiClient,
  name: NodeName,
): Promise<ReadonlySet<string> | undefined> {
  const found = await new Resource(client, NODES).get(objectKey('', name))
  if (found === undefined) return undefined
  const { capacity = {}, allocatable = {} } = node.parse(found).status
  return new Set([...Object.keys(capacity), ...Object.keys(allocatable)])
}
