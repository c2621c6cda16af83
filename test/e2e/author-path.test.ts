import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, readFile, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { readTemplate } from '../../create-handler/src/template.js'
import { describeUnless } from '../support/unless.js'
import { missingForInstallation } from './install/installation.js'
import { kubectl, kubectlWith } from './support/kubectl.js'
import { NodeAgent } from './support/node-agent.js'
import { kubeTools } from './support/node-spaces.js'
import { missingHere, NODE_1, onNode } from './support/nodes.js'
import { eventually, podYaml, World } from './support/world.js'

// The project of a new author in a container of its own, and a container that uses the device. The
// steps before, with packages as npm publishes them, are in test/create-handler.

const run = promisify(execFile)
const root = path.join(import.meta.dirname, '../..')
const lacks = missingHere() ?? missingForInstallation()
const NAME = 'pump'
const IMAGE = `registry.example/${NAME}:0.1.0`
const GROUP = 65_520
/** The rules of the README of the project. */
const RULES = {
  AKRI_HANDLER_DEVICES: `${NAME}=/dev/null:rw`,
  AKRI_HANDLER_MOUNTS: `${NAME}=/etc/hostname:/run/${NAME}/hostname`,
  AKRI_HANDLERS_GROUP: String(GROUP),
}
const USE = `echo "$PUMP_DEVICE $PUMP_KIND"; cat /run/${NAME}/hostname; exec sleep 100000`

describeUnless(lacks, 'the first handler of an author', () => {
  let directory: string
  let world: World
  let agent: NodeAgent

  beforeAll(async () => {
    directory = await mkdtemp(path.join(os.tmpdir(), 'akri-author-'))
    world = await World.open()
    agent = await NodeAgent.create(NODE_1, RULES)
    await agent.start()
  })

  afterAll(async () => {
    // It would make its Pods again.
    if (world !== undefined)
      await kubectl('-n', world.namespace, 'delete', 'daemonset', '--all', '--timeout=60s')
    await agent?.dispose()
    await world?.close()
    await onNode(NODE_1, 'ctr', '-n', 'k8s.io', 'images', 'rm', IMAGE).catch(() => undefined)
  })

  it('runs by the manifest of its project, and gives a container its device', async () => {
    const files = await readTemplate(path.join(root, 'create-handler/templates'), {
      language: 'javascript',
      names: { package: NAME, handler: NAME, prefix: NAME.toUpperCase() },
      version: '0.1.0',
    })
    const file = (name: string) => files.get(name) ?? expect.fail(`the project has no ${name}`)
    await importImage(file)
    // The namespace of the test, and the node and the directory of its agent.
    const daemonSet = file('deploy/daemonset.yaml')
      .replace('namespace: akri', `namespace: ${world.namespace}`)
      .replace('kubernetes.io/os: linux', `kubernetes.io/hostname: ${NODE_1}`)
      .replaceAll('/var/lib/akri', path.join(agent.directory, 'h'))
    await kubectlWith(daemonSet, 'apply', '-f', '-')
    await world.apply(file('deploy/configuration.yaml'))
    await world.apply(podYaml('user', { [`akri.sh/${NAME}`]: 1 }, { script: USE, node: NODE_1 }))
    const host = (await readFile('/etc/hostname', 'utf8')).trim()
    await eventually(async () =>
      expect(await world.logs('user')).toBe(`/dev/null character\n${host}`),
    ).catch(async (cause: unknown) => {
      const pods = await kubectl('-n', world.namespace, 'describe', 'pods')
      throw new Error(`${pods}\n${await agent.output()}`, { cause })
    })
    // The agent knows the handler.
    const ready = ['rollout', 'status', `daemonset/${NAME}`, '--timeout=60s']
    await kubectl('-n', world.namespace, ...ready)
  })

  /** Makes the image of the project of its files and its packages, and imports it on the node. */
  async function importImage(file: (name: string) => string): Promise<void> {
    const app = path.join(directory, 'app')
    await mkdir(app)
    for (const name of ['package.json', 'handler.js'])
      await writeFile(path.join(app, name), file(name))
    for (const name of ['sdk/package.json', 'sdk/dist'])
      await cp(path.join(root, name), path.join(app, 'node_modules/@akrijs', name), {
        recursive: true,
      })
    await cp(path.join(root, 'node_modules/zod'), path.join(app, 'node_modules/zod'), {
      recursive: true,
    })
    const [entry = '[]'] = /(?<=^ENTRYPOINT ).*$/m.exec(file('Dockerfile')) ?? []
    const [program = '', ...files] = JSON.parse(entry) as string[]
    const archive = path.join(directory, 'image.tar')
    const places = files.map((name) => `/app/${name}`)
    const make = path.join(kubeTools ?? '', 'kube-node-image')
    await run(make, [IMAGE, archive, app, program, ...places])
    await onNode(NODE_1, 'ctr', '-n', 'k8s.io', 'images', 'import', archive)
  }
})
