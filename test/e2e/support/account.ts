import { existsSync, readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import type { ApiClient } from '@akrijs/kube'
import { loadAll } from 'js-yaml'
import { accessOfCluster } from '../../cluster/support/client.js'

const MANIFESTS = path.join(import.meta.dirname, '../../../deploy/manifests')
const RBAC = '/apis/rbac.authorization.k8s.io/v1'
const FILES = [
  'service-account.yaml',
  'cluster-role.yaml',
  'cluster-role-binding.yaml',
  'role.yaml',
  'role-binding.yaml',
] as const
const PLURALS: Readonly<Record<string, string>> = {
  ServiceAccount: 'serviceaccounts',
  ClusterRole: 'clusterroles',
  ClusterRoleBinding: 'clusterrolebindings',
  Role: 'roles',
  RoleBinding: 'rolebindings',
}

interface Manifest {
  readonly kind: string
  readonly metadata: { readonly name: string; readonly namespace?: string }
}

/** The service account of a program, with the rights of the manifests and no others. */
export class Account {
  /** The files of the account, as in a Pod: `token` and `ca.crt`. */
  readonly directory: string
  readonly #client: ApiClient
  readonly #paths: readonly string[]

  private constructor(client: ApiClient, directory: string, paths: readonly string[]) {
    this.#client = client
    this.directory = directory
    this.#paths = paths
  }

  /** A kubeconfig with a token of the account. */
  get kubeconfig(): string {
    return path.join(this.directory, 'config')
  }

  /** @param namespace in place of the namespace of the manifests */
  static async create(
    client: ApiClient,
    program: 'agent' | 'controller' | 'webhook',
    namespace: string,
  ): Promise<Account> {
    const paths: string[] = []
    const text = FILES.map((file) => path.join(MANIFESTS, program, file))
      .filter((file) => existsSync(file))
      .map((file) => readFileSync(file, 'utf8'))
    for (const manifest of text.flatMap((one) => loadAll(one) as Manifest[])) {
      const object = moved(manifest, namespace)
      const url = pathOf(object)
      const query = { fieldManager: 'akri-test', force: true }
      await client.request({ method: 'PATCH', path: url, query, body: object, patch: 'apply' })
      paths.push(url)
    }
    const account = paths.find((of) => of.includes('/serviceaccounts/')) ?? ''
    const directory = await mkdtemp(path.join(os.tmpdir(), 'akri-account-'))
    await writeFiles(directory, await tokenOf(client, account))
    return new Account(client, directory, paths)
  }

  async dispose(): Promise<void> {
    for (const url of this.#paths) await this.#client.request({ method: 'DELETE', path: url })
    await rm(this.directory, { recursive: true, force: true })
  }
}

/** The manifest for another namespace. An object outside of that namespace gets another name. */
function moved(manifest: Manifest, namespace: string): Manifest {
  const object = JSON.parse(
    JSON.stringify(manifest).replaceAll('"namespace":"akri"', `"namespace":"${namespace}"`),
  ) as Manifest & { roleRef?: { name: string } }
  if (object.metadata.namespace === namespace) return object
  const renamed = (name: string) => `${name}-${namespace}`
  return {
    ...object,
    metadata: { ...object.metadata, name: renamed(object.metadata.name) },
    ...(object.roleRef === undefined
      ? {}
      : { roleRef: { ...object.roleRef, name: renamed(object.roleRef.name) } }),
  } as Manifest
}

function pathOf({ kind, metadata: { name, namespace } }: Manifest): string {
  const base = kind === 'ServiceAccount' ? '/api/v1' : RBAC
  const place = namespace === undefined ? '' : `/namespaces/${namespace}`
  return `${base}${place}/${PLURALS[kind]}/${name}`
}

async function tokenOf(client: ApiClient, account: string): Promise<string> {
  const { status } = (await client.request({
    method: 'POST',
    path: `${account}/token`,
    body: {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenRequest',
      spec: { expirationSeconds: 7200 },
    },
  })) as { status: { token: string } }
  return status.token
}

async function writeFiles(directory: string, token: string): Promise<void> {
  const access = await accessOfCluster()
  const { ca = '', serverName } = await access.credentials()
  const cluster = {
    server: access.server.href,
    'certificate-authority-data': Buffer.from(ca).toString('base64'),
    ...(serverName === undefined ? {} : { 'tls-server-name': serverName }),
  }
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'test', cluster }],
    users: [{ name: 'account', user: { token } }],
    contexts: [{ name: 'test', context: { cluster: 'test', user: 'account' } }],
    'current-context': 'test',
  }
  await writeFile(path.join(directory, 'config'), JSON.stringify(config))
  await writeFile(path.join(directory, 'ca.crt'), ca)
  await writeFile(path.join(directory, 'token'), token)
}
