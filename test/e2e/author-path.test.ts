import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { systemClock } from '@akrijs/runtime'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  buildImage,
  INSTALL,
  missingPackages,
  PackedPackages,
  runIn,
} from '../create-handler/support/packages.js'
import { missingForInstallation } from './install/installation.js'
import { kubectl, kubectlWith } from './support/kubectl.js'
import { NodeAgent } from './support/node-agent.js'
import { kubeTools } from './support/node-spaces.js'
import { missingHere, NODE_1, onNode } from './support/nodes.js'
import { eventually, podYaml, World } from './support/world.js'

// What an author does in the first fifteen minutes, with the packages as npm publishes them, up to
// a container that uses the device.

const run = promisify(execFile)
const lacks = missingHere() ?? missingForInstallation() ?? missingPackages()
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

describe.skipIf(lacks !== undefined)(
  `the first minutes of an author${lacks === undefined ? '' : ` (${lacks})`}`,
  () => {
    let directory: string
    let packages: PackedPackages
    let world: World
    let agent: NodeAgent

    beforeAll(async () => {
      directory = await mkdtemp(path.join(os.tmpdir(), 'akri-author-'))
      packages = await PackedPackages.pack(directory, ['zod'])
      world = await World.open()
      agent = await NodeAgent.create(NODE_1, RULES)
    })

    afterAll(async () => {
      // It would make its Pods again.
      if (world !== undefined)
        await kubectl('-n', world.namespace, 'delete', 'daemonset', '--all', '--timeout=60s')
      await agent?.dispose()
      await world?.close()
      await onNode(NODE_1, 'ctr', '-n', 'k8s.io', 'images', 'rm', IMAGE).catch(() => undefined)
      await rm(directory, { recursive: true, force: true })
    })

    /** Runs a step, and prints its time. */
    async function step<T>(name: string, work: () => Promise<T>): Promise<T> {
      const start = systemClock.monotonicMs()
      try {
        return await work()
      } finally {
        const seconds = ((systemClock.monotonicMs() - start) / 1000).toFixed(1)
        process.stdout.write(`the path of an author: ${name}: ${seconds} s\n`)
      }
    }

    /** A Pod gets the device of the Configuration with all that belongs to the device. */
    async function expectDevice(pod: string): Promise<void> {
      await world.apply(podYaml(pod, { [`akri.sh/${NAME}`]: 1 }, { script: USE, node: NODE_1 }))
      await eventually(() => world.running(pod))
      const host = (await readFile('/etc/hostname', 'utf8')).trim()
      await eventually(async () =>
        expect(await world.logs(pod)).toBe(`/dev/null character\n${host}`),
      )
      await world.remove('Pod', pod)
      await eventually(async () => expect(await world.phases()).not.toHaveProperty(pod))
    }

    it('lead from npm create to a container that uses the device', async () => {
      const project = path.join(directory, NAME)
      const source = path.join(project, 'handler.js')
      const installed = path.join(directory, 'installed')
      const discover = () => runIn(project, 'npm', 'run', 'discover')

      await step('create', async () => {
        await packages.create(directory, NAME, '--language', 'javascript')
        await runIn(project, 'npm', ...INSTALL)
      })
      await step('try', async () => {
        expect((await discover()).stdout).toMatch(
          /^\/dev\/null +PUMP_DEVICE=\/dev\/null PUMP_KIND=character +\/dev\/null:rw$/m,
        )
      })
      const good = await readFile(source, 'utf8')
      await step('break', async () => {
        const bad = good.replace('HOST + path', 'path.of.the.device')
        await writeFile(source, bad)
        const line = bad.split('\n').findIndex((text) => text.includes('path.of.the')) + 1
        await expect(discover()).rejects.toThrow(`handler.js:${line}:`)
      })
      await step('fix', async () => {
        await writeFile(source, good)
        expect((await discover()).stdout).toContain('/dev/null:rw')
      })
      await step('test', async () => {
        expect((await runIn(project, 'npm', 'test')).stdout).toMatch(/^(# |ℹ )fail 0$/m)
      })
      await step('pack', () => runIn(project, 'npm', 'pack', '--silent'))
      await step('install', async () => {
        await mkdir(installed)
        const tarball = path.join(project, `${NAME}-0.1.0.tgz`)
        const others = ['@akrijs/sdk', 'zod'].map((name) => packages.of(name))
        await runIn(installed, 'npm', ...INSTALL, tarball, ...others)
      })

      const configuration = await readFile(path.join(project, 'deploy/configuration.yaml'), 'utf8')
      const handlers = { ...RULES, AKRI_HANDLERS: path.join(installed, 'node_modules', NAME) }
      await step('run in the agent', async () => {
        agent = NodeAgent.beside(agent, handlers)
        await agent.start()
        await world.apply(configuration)
        await expectDevice('embedded')
      })
      await agent.stop()
      await step('run isolated', async () => {
        agent = NodeAgent.beside(agent, { ...handlers, AKRI_ISOLATED: 'on' })
        await agent.start()
        const socket = path.join(agent.directory, `s/isolated/${NAME}.sock`)
        await eventually(() => expect(existsSync(socket)).toBe(true))
        await expectDevice('isolated')
      })
      await agent.stop()
      await step('run in a container of its own', async () => {
        agent = NodeAgent.beside(agent, RULES)
        await agent.start()
        await importImage(project)
        const daemonSet = await readFile(path.join(project, 'deploy/daemonset.yaml'), 'utf8')
        // The namespace of the test, and the node and the directory of its agent.
        const adapted = daemonSet
          .replace('namespace: akri', `namespace: ${world.namespace}`)
          .replace('kubernetes.io/os: linux', `kubernetes.io/hostname: ${NODE_1}`)
          .replaceAll('/var/lib/akri', path.join(agent.directory, 'h'))
        await kubectlWith(adapted, 'apply', '-f', '-')
        const rollout = ['rollout', 'status', `daemonset/${NAME}`, '--timeout=120s']
        await kubectl('-n', world.namespace, ...rollout).catch(async (cause: unknown) => {
          const pods = await kubectl('-n', world.namespace, 'describe', 'pods')
          throw new Error(`${pods}\n${await agent.output()}`, { cause })
        })
        await expectDevice('beside')
      })
    })

    /** Builds the image of the project, and imports it on the node. */
    async function importImage(project: string): Promise<void> {
      const stages = path.join(directory, 'stages')
      await mkdir(stages)
      const { app, command } = await buildImage(project, stages)
      const [program = '', ...files] = command
      const archive = path.join(directory, 'image.tar')
      const places = files.map((file) => `/app/${file}`)
      const make = path.join(kubeTools ?? '', 'kube-node-image')
      await run(make, [IMAGE, archive, app, program, ...places])
      await onNode(NODE_1, 'ctr', '-n', 'k8s.io', 'images', 'import', archive)
    }
  },
)
