import { writeFile } from 'node:fs/promises'

/** Writes a kubeconfig of a server that wants no credentials, such as a proxy. */
export async function writeKubeconfig(file: string, server: URL): Promise<void> {
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [
      { name: 'test', cluster: { server: server.href, 'insecure-skip-tls-verify': true } },
    ],
    users: [{ name: 'test', user: {} }],
    contexts: [{ name: 'test', context: { cluster: 'test', user: 'test' } }],
    'current-context': 'test',
  }
  await writeFile(file, JSON.stringify(config))
}
