import { ApiUnreachableError } from '@akrijs/kube'
import { clientOfCluster, missingSettings } from '../../cluster/support/client.js'

const PROGRAMS = 'app.kubernetes.io/part-of=akri'
/** Of each log, in bytes. */
const MAX_LOG = 8 * 1024 * 1024

interface Installed {
  readonly metadata: { readonly namespace: string; readonly name: string }
  readonly spec: { readonly containers: readonly { readonly name: string }[] }
}

/** The logs of all containers of installed programs. A container may not have started. */
export async function logsOfInstalledPrograms(): Promise<string[]> {
  if (missingSettings.length > 0) return []
  const client = await clientOfCluster()
  const logOf = async ({ metadata: { namespace, name } }: Installed, container: string) => {
    const path = `/api/v1/namespaces/${namespace}/pods/${name}/log`
    const query = { container, limitBytes: MAX_LOG }
    const lines: string[] = []
    try {
      const request = { method: 'GET' as const, path, query }
      for await (const line of client.lines(request, AbortSignal.timeout(60_000))) lines.push(line)
    } catch {
      // The Pod is gone or has not started.
    }
    return lines.join('\n')
  }
  try {
    const request = { method: 'GET' as const, path: '/api/v1/pods' }
    const query = { labelSelector: PROGRAMS }
    const { items } = (await client.request({ ...request, query })) as { items: Installed[] }
    const logs = items.flatMap((pod) => pod.spec.containers.map(({ name }) => logOf(pod, name)))
    return await Promise.all(logs)
  } catch (error) {
    // Some tests end the API server.
    if (error instanceof ApiUnreachableError) return []
    throw error
  } finally {
    client.close()
  }
}
