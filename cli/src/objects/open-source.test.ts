import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { AkriError, Closer, InvalidOptionError, silentLogger } from '@akrijs/runtime'
import { describe, expect, it } from 'vitest'
import { AgentObjects } from './agent-objects.js'
import { ClusterObjects } from './cluster-objects.js'
import { openSource } from './open-source.js'

const directory = mkdtempSync(path.join(tmpdir(), 'akri-source-'))
const kubeconfig = path.join(directory, 'config')
writeFileSync(
  kubeconfig,
  JSON.stringify({
    clusters: [{ name: 'one', cluster: { server: 'http://127.0.0.1:1' } }],
    contexts: [
      { name: 'here', context: { cluster: 'one' } },
      { name: 'plant', context: { cluster: 'one', namespace: 'plant' } },
    ],
    'current-context': 'here',
  }),
)
const options: Parameters<typeof openSource>[0] = {
  ...{ kubeconfig: undefined, context: undefined, namespace: undefined, allNamespaces: false },
  ...{ stateDir: directory, logFormat: 'text', color: 'never' },
}

function open(chosen: Partial<Parameters<typeof openSource>[0]>, program = 'akri') {
  const context = { signal: new AbortController().signal, closer: new Closer(), log: silentLogger }
  return openSource({ ...options, ...chosen }, context, program)
}

describe('the objects that a command shows', () => {
  it.each([
    ['akri', {}, AgentObjects],
    ['akri', { kubeconfig }, ClusterObjects],
    ['akri', { kubeconfig, context: 'plant' }, ClusterObjects],
    ['akri', { kubeconfig, allNamespaces: true }, ClusterObjects],
    ['kubectl-akri', { kubeconfig }, ClusterObjects],
  ])('of %s with %j are those of %o', async (program, chosen, source) => {
    expect(await open(chosen, program)).toBeInstanceOf(source)
  })

  it.each([
    [{ namespace: 'a', allNamespaces: true }, InvalidOptionError, 'either --namespace or'],
    [{ kubeconfig, context: 'plnat' }, AkriError, 'no context "plnat", but here, plant'],
    [{ kubeconfig: '/no/such' }, AkriError, 'there is no kubeconfig /no/such'],
  ])('are refused with %j', async (chosen, error, message) => {
    const opened = open(chosen)
    await expect(opened).rejects.toThrow(error)
    await expect(opened).rejects.toThrow(message)
  })
})
