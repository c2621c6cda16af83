import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { codeOf } from '@akrijs/runtime'
import type { ClusterAccess } from './cluster-credentials.js'
import { ClusterAccessError } from './errors.js'

interface AccessOptions {
  /** The path of a kubeconfig. @default KUBECONFIG, if there is no service account */
  readonly kubeconfig?: string | undefined
  /** A context of the kubeconfig. @default its current context */
  readonly context?: string | undefined
  /** @default process.env */
  readonly environment?: Readonly<Record<string, string | undefined>>
  /**
   * The files of the service account of a Pod.
   * @default '/var/run/secrets/kubernetes.io/serviceaccount'
   */
  readonly serviceAccountDirectory?: string
}

/**
 * The cluster of a program: from the kubeconfig that the options name, else the cluster of this
 * Pod, else the cluster of the default kubeconfig (`KUBECONFIG`, `~/.kube/config`).
 * @throws ClusterAccessError if there is none of the three
 */
export async function clusterAccess(options: AccessOptions = {}): Promise<ClusterAccess> {
  const { kubeconfig, context, environment = process.env } = options
  if (kubeconfig === undefined && context === undefined) {
    const inCluster = inClusterAccess(options)
    if (inCluster !== undefined) return inCluster
  }
  // Loaded only if needed: the parser of kubeconfigs is ten times the size of this package.
  const { kubeconfigAccess } = await import('./kubeconfig.js').catch((error: unknown) => {
    if (codeOf(error) !== 'ERR_MODULE_NOT_FOUND') throw error
    throw new ClusterAccessError(
      'a kubeconfig cannot be read here: images of akri.js, and a clone with what npm start ' +
        'needs, have no reader. Run the program in a Pod that has a token, or npm run build in ' +
        'the clone',
      { cause: error },
    )
  })
  return kubeconfigAccess(kubeconfig ?? (environment.KUBECONFIG || undefined), context)
}

/** The cluster of this Pod; undefined outside a Pod. */
export function inClusterAccess({
  environment = process.env,
  serviceAccountDirectory = '/var/run/secrets/kubernetes.io/serviceaccount',
}: AccessOptions = {}): ClusterAccess | undefined {
  const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port } = environment
  if (!host || !port) return undefined
  const read = async (name: string) => {
    try {
      return await readFile(path.join(serviceAccountDirectory, name), 'utf8')
    } catch (error) {
      throw new ClusterAccessError(
        `this is a Pod, but ${serviceAccountDirectory}/${name} cannot be read; ` +
          'automountServiceAccountToken must be true',
        { cause: error },
      )
    }
  }
  const server = `https://${host.includes(':') ? `[${host}]` : host}:${port}`
  if (!URL.canParse(server))
    throw new ClusterAccessError(
      `KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT give no address: ${server}`,
    )
  return {
    server: new URL(server),
    credentials: async () => ({ ca: await read('ca.crt'), token: (await read('token')).trim() }),
  }
}
