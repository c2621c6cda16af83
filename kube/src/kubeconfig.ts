import { readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import path from 'node:path'
import { codeOf, isRecord, valueAt } from '@akrijs/runtime'
import { KubeConfig, loadYaml, type User } from '@kubernetes/client-node'
import type { ClusterAccess, Credentials } from './cluster-credentials.js'
import { ClusterAccessError } from './errors.js'

/**
 * The cluster of a context of a kubeconfig. Plugins for the login are run.
 * @param files a file, or several files as in KUBECONFIG. @default ~/.kube/config
 * @param context the name of the context. @default the current context
 * @throws ClusterAccessError
 */
export function kubeconfigAccess(
  files: string = path.join(homedir(), '.kube', 'config'),
  context?: string,
): ClusterAccess {
  const config = load(files)
  const refusal = (what: string) => new ClusterAccessError(`kubeconfig ${files}: ${what}`)
  if (context !== undefined) {
    const known = config.getContexts().map(({ name }) => name)
    if (!known.includes(context))
      throw refusal(`it has no context ${JSON.stringify(context)}, but ${known.join(', ')}`)
    config.setCurrentContext(context)
  }
  const its = `its ${context === undefined ? 'current ' : ''}context`
  const cluster = config.getCurrentCluster()
  if (cluster === null)
    throw refusal(
      `${its} ${JSON.stringify(config.getCurrentContext() ?? '')} names no cluster with a server`,
    )
  if (!URL.canParse(cluster.server) || !/^https?:$/.test(new URL(cluster.server).protocol))
    throw refusal(`the server ${JSON.stringify(cluster.server)} is no address of a server`)
  // To ignore these fields would be another way to the cluster, or another user.
  const user: KubeconfigUser | null = config.getCurrentUser()
  const { user: userName, namespace } = config.getContextObject(config.getCurrentContext()) ?? {}
  if (userName !== undefined && user === null)
    throw refusal(`${its} names the user ${JSON.stringify(userName)}, who is missing`)
  if (cluster.proxyUrl) throw refusal('proxy-url is not supported')
  if (user?.username) throw refusal('username and password are not supported')
  if (user?.impersonateUser) throw refusal('impersonation of another user is not supported')
  return {
    server: new URL(cluster.server),
    namespace,
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
          // A token in a file is renewed there, and wins.
          token:
            user?.tokenFile === undefined
              ? bearerOf(options.headers)
              : (await readFile(user.tokenFile, 'utf8')).trim(),
          verify: !cluster.skipTLSVerify,
          serverName: cluster.tlsServerName || undefined,
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

/** A user, with a field that the library does not read. */
interface KubeconfigUser extends User {
  readonly tokenFile?: string
}

/** Merges the files as kubectl does: the first that sets a name or the current context wins. */
function load(files: string): KubeConfig {
  const names = files.split(path.delimiter).filter((file) => file !== '')
  if (names.length === 0) throw new ClusterAccessError('the name of the kubeconfig is empty')
  const configs = names.map(loadFile).filter((config) => config !== undefined)
  if (configs.length === 0)
    throw new ClusterAccessError(
      `there is no kubeconfig ${names.join(', ')}; outside a Pod, name one with --kubeconfig or ` +
        'KUBECONFIG',
    )
  const merged = new KubeConfig()
  merged.clusters = firstOfEachName(configs.flatMap(({ clusters }) => clusters))
  merged.users = firstOfEachName(configs.flatMap(({ users }) => users))
  merged.contexts = firstOfEachName(configs.flatMap(({ contexts }) => contexts))
  merged.setCurrentContext(configs.map((config) => config.currentContext).find(Boolean) ?? '')
  return merged
}

function firstOfEachName<T extends { readonly name: string }>(items: readonly T[]): T[] {
  return items.filter(({ name }, at) => items.findIndex((item) => item.name === name) === at)
}

/** @returns undefined if there is no such file */
function loadFile(file: string): KubeConfig | undefined {
  const config = new KubeConfig()
  try {
    const text = readFileSync(file, 'utf8')
    // A file that is empty, or has only comments, sets nothing.
    if (text.split('\n').every((line) => /^\s*(#|(---)?\s*$)/.test(line))) return config
    // As in kubectl, an incomplete entry matters only if the current context needs it.
    config.loadFromFile(file, { onInvalidEntry: 'filter' })
    const entries = valueAt(loadYaml(text), 'users')
    config.users = config.users.map((user) => {
      const isOfUser = (entry: unknown) => valueAt(entry, 'name') === user.name
      const entry: unknown = Array.isArray(entries) ? entries.find(isOfUser) : undefined
      return withPaths(user, valueAt(entry, 'user', 'tokenFile'), path.dirname(file))
    })
    return config
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw new ClusterAccessError(`kubeconfig ${file} cannot be used: ${String(error)}`, {
      cause: error,
    })
  }
}

/** All paths start at the file. A command without a slash is searched in PATH. */
function withPaths(user: User, tokenFile: unknown, directory: string): KubeconfigUser {
  const command: unknown = user.exec?.command
  return {
    ...user,
    ...(typeof tokenFile === 'string' &&
      tokenFile !== '' && { tokenFile: path.resolve(directory, tokenFile) }),
    ...(typeof command === 'string' &&
      command.includes('/') && {
        exec: { ...user.exec, command: path.resolve(directory, command) },
      }),
  }
}

async function pemOf(
  data: string | undefined,
  file: string | undefined,
): Promise<string | undefined> {
  // An empty text means that the field is not set.
  if (data) return Buffer.from(data, 'base64').toString('utf8')
  return file ? await readFile(file, 'utf8') : undefined
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
