import { ApiError, objectKey, PODS, Resource } from '@akrijs/kube'
import { InvalidOptionError, printable } from '@akrijs/runtime'
import { NoSuchObjectError } from '../errors.js'
import { podFacts, readFacts } from '../explain/cluster-facts.js'
import { explainConfiguration } from '../explain/explain-configuration.js'
import { explainPod } from '../explain/explain-pod.js'
import type { ClusterObjects } from '../objects/cluster-objects.js'

/** `akri explain`: says why a Configuration has no devices, or why a Pod waits. */
export async function explain(kind: string, name: string, objects: ClusterObjects): Promise<void> {
  const lines = await linesOf(kind, name, objects)
  if (lines === undefined)
    throw new NoSuchObjectError(`there is no ${kind} ${name} in namespace ${objects.namespace}`)
  process.stdout.write(`${lines.map(printable).join('\n')}\n`)
}

async function linesOf(
  kind: string,
  name: string,
  objects: ClusterObjects,
): Promise<readonly string[] | undefined> {
  const { client, namespace, signal } = objects
  const facts = () => readFacts(client, namespace, signal)
  if (/^(configurations?|akric)$/i.test(kind)) {
    const all = await objects.configurations()
    const configuration = all.find(({ metadata }) => metadata.name === name)
    return configuration && explainConfiguration(configuration, await facts())
  }
  if (/^pods?$/i.test(kind)) {
    const found = await new Resource(client, PODS).get(objectKey(namespace, name), { signal })
    const pod = podFacts(found)
    if (pod === undefined) return undefined
    // The devices can be those of other namespaces.
    const all = objects.in('')
    const [read, configurations, instances, uses] = await Promise.all([
      facts(),
      all.configurations().catch(whereAllowed(() => objects.configurations())),
      all.instances().catch(whereAllowed(() => objects.instances())),
      objects.uses(),
    ])
    return explainPod(pod, { ...read, configurations, instances, uses })
  }
  throw new InvalidOptionError(
    `${JSON.stringify(kind)} cannot be explained; write configuration or pod`,
  )
}

/** Reads one namespace where the user may not read all. */
function whereAllowed<T>(read: () => Promise<T>): (error: unknown) => Promise<T> {
  return (error) => {
    if (!ApiError.is(error, 403)) throw error
    return read()
  }
}
