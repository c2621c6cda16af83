import { mkdir, mkdtemp, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'

/** Variables of a program of a Pod, with directories of its own. @param server the API server */
export async function environmentWith(server: string): Promise<Record<string, string>> {
  const directory = await mkdtemp(path.join(os.tmpdir(), 'akri-e-'))
  const KUBECONFIG = path.join(directory, 'kubeconfig')
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'x',
    clusters: [{ name: 'c', cluster: { server, 'insecure-skip-tls-verify': true } }],
    users: [{ name: 'u', user: {} }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
  }
  await writeFile(KUBECONFIG, JSON.stringify(config))
  await mkdir(path.join(directory, 'p'))
  return {
    KUBECONFIG,
    METRICS_PORT: '0',
    AGENT_NODE_NAME: 'node-a',
    DISCOVERY_HANDLERS_DIRECTORY: path.join(directory, 'h'),
    AKRI_STATE_DIRECTORY: path.join(directory, 's'),
    KUBELET_PLUGIN_DIRECTORY: path.join(directory, 'p'),
    POD_NAMESPACE: 'akri',
    AKRI_DRAIN: '0',
    AKRI_WEBHOOK_PORT: '0',
  }
}
