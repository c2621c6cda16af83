import { execFile } from 'node:child_process'
import { mkdtemp, readFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { describeUnless } from '../support/unless.js'
import { kubectl } from './support/kubectl.js'
import { missing, NODES } from './support/nodes.js'
import { eventually, World } from './support/world.js'

// The commands of the docs that remove names of resources, and what an uninstall leaves.

const run = promisify(execFile)
const root = path.join(import.meta.dirname, '../..')
/** Also with a quantity: a kubelet that lost its checkpoint keeps it. */
const OLD = { 'akri.sh/gone': '0', 'akri.sh/gone-8120fe': '2' }
/** The name of another program has to stay. */
const OTHER = { 'example.com/lens': '0' }

describeUnless(missing(), 'leftovers of an uninstall', () => {
  let world: World

  beforeAll(async () => {
    world = await World.open()
  })

  afterAll(async () => {
    const names = Object.keys({ ...OLD, ...OTHER })
    for (const node of NODES)
      await writeNames(
        node,
        names.map((name) => [name, null] as const),
      )
    await world?.close()
  })

  async function writeNames(
    node: string,
    names: readonly (readonly [name: string, count: string | null])[],
  ): Promise<void> {
    const resources = Object.fromEntries(names)
    await world.client.request({
      method: 'PATCH',
      path: `/api/v1/nodes/${node}/status`,
      patch: 'merge',
      body: { status: { capacity: resources, allocatable: resources } },
    })
  }

  async function capacity(node: string): Promise<Record<string, string>> {
    const { status } = (await world.client.request({
      method: 'GET',
      path: `/api/v1/nodes/${node}`,
    })) as { status: { capacity: Record<string, string> } }
    return status.capacity
  }

  it('names of resources go from all Nodes', async ({ skip }) => {
    const help = await kubectl('patch', '--help')
    skip(!help.includes('--subresource'), 'needs kubectl 1.24 or newer')
    const script = await commands('for node in ')
    for (const node of NODES) await writeNames(node, Object.entries({ ...OLD, ...OTHER }))
    // A kubelet may write the status at the same moment.
    await eventually(async () => {
      await run('bash', ['-euo', 'pipefail', '-c', script])
      for (const node of NODES) {
        const found = await capacity(node)
        expect(Object.keys(found)).not.toEqual(
          expect.arrayContaining([expect.stringMatching(/gone/)]),
        )
        expect(found).toMatchObject(OTHER)
      }
    })
    // Nothing is left to remove.
    await run('bash', ['-euo', 'pipefail', '-c', script])
  })

  it('names of resources go from one Node that has too many of them', async ({ skip }) => {
    const help = await kubectl('patch', '--help')
    skip(!help.includes('--subresource'), 'needs kubectl 1.24 or newer')
    const directory = await mkdtemp(path.join(os.tmpdir(), 'akri-names-'))
    const [node] = NODES
    await writeNames(node, Object.entries({ ...OLD, ...OTHER }))
    const script = (await commands('NODE=')).replace('node-1', node)
    await run('bash', ['-euo', 'pipefail', '-c', script], { cwd: directory })
    const found = await capacity(node)
    for (const name of Object.keys(OLD)) expect(found).not.toHaveProperty([name])
    expect(found).toMatchObject(OTHER)
  })

  it('the rights to read Secrets go from all namespaces', async () => {
    const folder = path.join(root, 'deploy/manifests/read-secrets')
    const namespaces = [world.namespace, `${world.namespace}-b`]
    await kubectl('create', 'namespace', namespaces[1] ?? '')
    try {
      for (const namespace of namespaces) await kubectl('-n', namespace, 'apply', '-k', folder)
      await run('bash', ['-euo', 'pipefail', '-c', await commands('kubectl get rolebindings')])
      const found = await kubectl('get', 'roles,rolebindings', '-A', '-o', 'name')
      expect(found).not.toContain('akri-agent-read-secrets')
    } finally {
      await kubectl('delete', 'namespace', namespaces[1] ?? '', '--wait=false')
    }
  })
})

/** The commands of the docs that begin so. */
async function commands(beginning: string): Promise<string> {
  const pages = ['operators.md', 'devices.md'].map((page) =>
    readFile(path.join(root, 'docs', page), 'utf8'),
  )
  const text = (await Promise.all(pages)).join('\n')
  const blocks = [...text.matchAll(/```sh\n([^`]+)```/g)].map(([, block = '']) => block)
  return blocks.find((block) => block.startsWith(beginning)) ?? expect.fail(`no ${beginning}`)
}
