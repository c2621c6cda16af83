import { readFile } from 'node:fs/promises'
import { KubeConfig } from '@kubernetes/client-node'
import type { ClusterAccess, Credentials } from './cluster-access.js'
import { ClusterAccessError } from './errors.js'

/**
 * The cluster that a kubeconfig names as its current one, with whatever plugin it uses to log in.
 * @param file @default KUBECONFIG or ~/.kube/config
 * @throws ClusterAccessError
 */
export function kubeconfigAccess(file?: string): ClusterAccess {
  const config = new KubeConfig()
  try {
    if (file === undefined) config.loadFromDefault()
    else config.loadFromFile(file)
  } catch (error) {
    throw new ClusterAccessError(`kubeconfig ${file ?? ''} cannot be used: ${String(error)}`, { cause: error })
  }
  const cluster = config.getCurrentCluster()
  if (cluster === null || !URL.canParse(cluster.server))
    throw new ClusterAccessError(
      `there is no cluster: this is no Pod, and no kubeconfig names one; give one with --kubeconfig or KUBECONFIG`,
    )
  return {
    server: new URL(cluster.server),
    async credentials(): Promise<Credentials> {
      const user = config.getCurrentUser()
      // Also runs plugins (exec, OIDC) and keeps what they give for as long as it is good.
      const options: { headers?: unknown; ca?: unknown; cert?: unknown; key?: unknown } = {}
      try {
        await config.applyToHTTPSOptions(options as Parameters<KubeConfig['applyToHTTPSOptions']>[0])
      } catch (error) {
        throw new ClusterAccessError(`user ${user?.name ?? ''} of the kubeconfig cannot log in: ${String(error)}`, {
          cause: error,
        })
      }
      return {
        ca: await pemOf(cluster.caData, cluster.caFile),
        cert: text(options.cert),
        key: text(options.key),
        token: bearerOf(options.headers),
        verify: !cluster.skipTLSVerify,
        serverName: cluster.tlsServerName,
      }
    },
  }
}

async function pemOf(data: string | undefined, file: string | undefined): Promise<string | undefined> {
  if (data !== undefined) return Buffer.from(data, 'base64').toString('utf8')
  return file === undefined ? undefined : await readFile(file, 'utf8')
}

function text(value: unknown): string | undefined {
  if (typeof value === 'string') return value
  return Buffer.isBuffer(value) ? value.toString('utf8') : undefined
}

function bearerOf(headers: unknown): string | undefined {
  if (typeof headers !== 'object' || headers === null) return undefined
  for (const [name, value] of Object.entries(headers)) {
    if (name.toLowerCase() !== 'authorization' || typeof value !== 'string') continue
    const [, token] = /^Bearer (.+)$/.exec(value) ?? []
    if (token !== undefined) return token
  }
  return undefined
}
