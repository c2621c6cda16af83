import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { ClusterAccessError } from './errors.js'

/** How to reach an API server, and as whom. */
export interface ClusterAccess {
  readonly server: URL
  /** What is current: files of a Pod are renewed while it runs. */
  credentials(): Promise<Credentials>
}

export interface Credentials {
  /** The certificates that the server's must be signed by, PEM. @default those that Node knows */
  readonly ca?: string | undefined
  /** A client certificate and its key, PEM. */
  readonly cert?: string | undefined
  readonly key?: string | undefined
  /** A bearer token. */
  readonly token?: string | undefined
  /** Whether the server's certificate is checked. @default true */
  readonly verify?: boolean | undefined
  /** The name that the server's certificate must have. @default the host of `server` */
  readonly serverName?: string | undefined
}

export interface AccessOptions {
  /** A kubeconfig file. @default KUBECONFIG, where there is no service account */
  readonly kubeconfig?: string | undefined
  /** @default process.env */
  readonly environment?: Readonly<Record<string, string | undefined>>
  /** Where a Pod finds its service account. @default '/var/run/secrets/kubernetes.io/serviceaccount' */
  readonly serviceAccountDirectory?: string
}

/**
 * The cluster that a program is meant for: the kubeconfig that is named, else the Pod's own cluster, else the default
 * kubeconfig (`KUBECONFIG`, `~/.kube/config`).
 * @throws ClusterAccessError where there is none of them
 */
export async function clusterAccess(options: AccessOptions = {}): Promise<ClusterAccess> {
  const { kubeconfig, environment = process.env } = options
  if (kubeconfig === undefined) {
    const inCluster = inClusterAccess(options)
    if (inCluster !== undefined) return inCluster
  }
  // Only who needs it pays for it: it is ten times the size of the rest.
  const { kubeconfigAccess } = await import('./kubeconfig.js')
  return kubeconfigAccess(kubeconfig ?? (environment.KUBECONFIG || undefined))
}

/** The cluster that this Pod is in; undefined where this is no Pod. */
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
        `this is a Pod, but ${serviceAccountDirectory}/${name} cannot be read; automountServiceAccountToken must be true`,
        { cause: error },
      )
    }
  }
  const server = `https://${host.includes(':') ? `[${host}]` : host}:${port}`
  if (!URL.canParse(server))
    throw new ClusterAccessError(
      `KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT make no address: ${server}`,
    )
  return {
    server: new URL(server),
    credentials: async () => ({ ca: await read('ca.crt'), token: (await read('token')).trim() }),
  }
}
