import { ApiError, objectKey, PODS, Resource } from '@akrijs/kube'
import { InvalidOptionError, printable } from '@akrijs/runtime'
import { NoSuchObjectError } from '../errors.js'
import { podFacts, readFacts } from '../explain/cluster-facts.js'
import { explainConfiguration } from '../explain/explain-configuration.js'
import { explainPod } from '../explain/explain-pod.js'
import type { ClusterObjects } from '../objects/cluster-objects.js'

const CONFIGURATION = /^(configurations?|akric)$/i
const POD = /^pods?$/i

/** `akri explain`: says why a Configuration has no devices, or why a Pod waits. */
export async function explain(
  kind: string,
  name: string,
  open: () => Promise<ClusterObjects>,
): Promise<void> {
  if (!CONFIGURATION.test(kind) && !POD.test(kind))
    throw new InvalidOptionError(
      `${JSON.stringify(kind)} cannot be explained; write configuration or pod`,
    )
  const objects = await open()
  const lines = POD.test(kind)
    ? await podLines(name, objects)
    : await configurationLines(name, objects)
  if (lines === undefined)
    throw new NoSuchObjectError(`there is no ${kind} ${name} in namespace ${objects.namespace}`)
  process.stdout.write(`${lines.map(printable).join('\n')}\n`)
}

type Lines = Promise<readonly string[] | undefined>

async function configurationLines(name: string, objects: ClusterObjects): Lines {
  const all = await objects.configurations()
  const configuration = all.find(({ metadata }) => metadata.name === name)
  return configuration && explainConfiguration(configuration, await factsOf(objects))
}

async function podLines(name: string, objects: ClusterObjects): Lines {
  const { client, namespace, signal } = objects
  const found = await new Resource(client, PODS).get(objectKey(namespace, name), { signal })
  const pod = podFacts(found)
  if (pod === undefined) return undefined
  // The devices can be those of other namespaces.
  const all = objects.in('')
  const [read, configurations, instances, uses] = await Promise.all([
    factsOf(objects),
    all.configurations().catch(whereAllowed(() => objects.configurations())),
    all.instances().catch(whereAllowed(() => objects.instances())),
    objects.uses(),
  ])
  return explainPod(pod, { ...read, configurations, instances, uses })
}

function factsOf({ client, namespace, signal }: ClusterObjects) {
  return readFacts(client, namespace, signal)
}

/** Reads one namespace where the user may not read all. */
function whereAllowed<T>(read: () => Promise<T>): (error: unknown) => Promise<T> {
  return (error) => {
    if (!ApiError.is(error, 403)) throw error
    return read()
  }
}
