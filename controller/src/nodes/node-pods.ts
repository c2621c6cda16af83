import { GROUP } from '@akrijs/api'
import { type ApiClient, type NodeName, PODS, Resource } from '@akrijs/kube'
import * as z from 'zod'
import { lenient } from '../kubernetes-objects.js'

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
const page = z.object({
  metadata: z.object({ continue: z.string().optional() }).catch({}),
  items: z.array(
    z.object({
      spec: lenient({ containers, initContainers: containers }),
      status: lenient({ phase: z.string().catch('Unknown') }),
    }),
  ),
})

/**
 * The `akri.sh` resources that the Pods of a node ask for, except Pods that have ended. The list is
 * requested when needed: a watch on all Pods of a cluster would cost more.
 * @throws ApiError, ApiUnreachableError
 */
export async function resourcesOf(
  node: NodeName,
  { client, signal }: { readonly client: ApiClient; readonly signal: AbortSignal },
): Promise<Set<string>> {
  const path = new Resource(client, PODS).path()
  const resources = new Set<string>()
  let next: string | undefined
  do {
    const query = { fieldSelector: `spec.nodeName=${node}`, limit: 500, continue: next }
    const { items, metadata } = page.parse(
      await client.request({ method: 'GET', path, query, signal }),
    )
    for (const { spec, status } of items) {
      if (status.phase === 'Succeeded' || status.phase === 'Failed') continue
      for (const { resources: quantities } of [
        ...(spec.containers ?? []),
        ...(spec.initContainers ?? []),
      ])
        for (const name of Object.keys({ ...quantities?.limits, ...quantities?.requests }))
          if (name.startsWith(`${GROUP}/`)) resources.add(name)
    }
    next = metadata.continue === '' ? undefined : metadata.continue
  } while (next !== undefined)
  return resources
}
