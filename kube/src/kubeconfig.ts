import { readFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import path from 'node:path'
import { codeOf, isRecord } from '@akrijs/runtime'
import { KubeConfig } from '@kubernetes/client-node'
import type { ClusterAccess, Credentials } from './cluster-credentials.js'
import { ClusterAccessError } from './errors.js'

/**
 * The cluster of the current context of a kubeconfig. Plugins for the login are run.
 * @param files a file, or several files as in KUBECONFIG. @default ~/.kube/config
 * @throws ClusterAccessError
 */
export function kubeconfigAccess(
  files: string = path.join(homedir(), '.kube', 'config'),
): ClusterAccess {
  const config = load(files)
  const refusal = (what: string) => new ClusterAccessError(`kubeconfig ${files}: ${what}`)
  const cluster = config.getCurrentCluster()
  if (cluster === null)
    throw refusal(
      `its current context ${JSON.stringify(config.getCurrentContext() ?? '')} names no ` +
        'cluster of the file',
    )
  if (!URL.canParse(cluster.server) || !/^https?:$/.test(new URL(cluster.server).protocol))
    throw refusal(`the server ${JSON.stringify(cluster.server)} is no address of a server`)
  // To ignore these fields would be another way to the cluster, or another user.
  const user = config.getCurrentUser()
  if (cluster.proxyUrl) throw refusal('proxy-url is not supported')
  if (user?.username) throw refusal('username and password are not supported')
  if (user?.impersonateUser) throw refusal('impersonation of another user is not supported')
  return {
    server: new URL(cluster.server),
    async credentials(): Promise<Credentials> {
      // Also runs plugins (exec, OIDC), and caches their credentials until they expire.
      const options: { headers?: unknown; ca?: unknown; cert?: unknown; key?: unknown } = {}
      try {
        await config.applyToHTTPSOptions(
          options as Parameters<KubeConfig['applyToHTTPSOptions']>[0],
        )
        return {
          ca: await pemOf(cluster.caData, cluster.caFile),
          cert: text(options.cert),
          key: text(options.key),
          token: bearerOf(options.headers),
          verify: !cluster.skipTLSVerify,
          serverName: cluster.tlsServerName,
        }
      } catch (error) {
        throw new ClusterAccessError(
          `user ${user?.name ?? ''} of kubeconfig ${files} cannot log in: ${String(error)}`,
          { cause: error },
        )
      }
    },
  }
}

/** Merges the files. As in kubectl, the first current context counts. */
function load(files: string): KubeConfig {
  const [first, ...others] = files.split(path.delimiter).filter((file) => file !== '')
  if (first === undefined) throw new ClusterAccessError('the name of the kubeconfig is empty')
  const config = loadFile(first)
  for (const file of others) {
    const other = loadFile(file)
    try {
      config.mergeConfig(other, Boolean(config.getCurrentContext()))
    } catch (error) {
      throw new ClusterAccessError(
        `kubeconfig ${file} cannot be merged with ${first}: ${String(error)}`,
        { cause: error },
      )
    }
  }
  return config
}

function loadFile(file: string): KubeConfig {
  const config = new KubeConfig()
  try {
    config.loadFromFile(file)
    return config
  } catch (error) {
    const message =
      codeOf(error) === 'ENOENT'
        ? `there is no kubeconfig ${file}; outside a Pod, name one with --kubeconfig or KUBECONFIG`
        : `kubeconfig ${file} cannot be used: ${String(error)}`
    throw new ClusterAccessError(message, { cause: error })
  }
}

async function pemOf(
  data: string | undefined,
  file: string | undefined,
): Promise<string | undefined> {
  if (data !== undefined) return Buffer.from(data, 'base64').toString('utf8')
  return file === undefined ? undefined : await readFile(file, 'utf8')
}

function text(value: unknown): string | undefined {
  if (typeof value === 'string') return value
  return Buffer.isBuffer(value) ? value.toString('utf8') : undefined
}

function bearerOf(headers: unknown): string | undefined {
  for (const [name, value] of Object.entries(isRecord(headers) ? headers : {})) {
    if (name.toLowerCase() !== 'authorization' || typeof value !== 'string') continue
    const [, token] = /^Bearer (.+)$/.exec(value.trim()) ?? []
    if (token !== undefined) return token
  }
  return undefined
}
