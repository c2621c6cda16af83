import path from 'node:path'
import type { ConfigurationStatus } from '@akrijs/api'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { applyCustomResources } from '../cluster/support/custom-resources.js'
import { describeUnless } from '../support/unless.js'
import { akri } from './support/akri-command.js'
import { ExistingAgent } from './support/existing-agent.js'
import { HostController } from './support/host-controller.js'
import { hasKubectl, kubectl } from './support/kubectl.js'
import { NodeAgent } from './support/node-agent.js'
import { missingHere, NODE_1, NODES, setAvailable } from './support/nodes.js'
import { tidyUp } from './support/tidy-up.js'
import { echoYaml, eventually, type InstanceState, podYaml, World } from './support/world.js'

// A cluster whose custom resources are those of the existing system: Helm installs ours there only
// if a person says so. Each test builds on the tests before it.

const lacks = missingHere() ?? (hasKubectl() ? undefined : 'needs kubectl')
const EXISTING = path.join(import.meta.dirname, 'support/existing-custom-resources.yaml')
const NAME = 'cam-8120fe'
const KINDS = ['configurations.akri.sh', 'instances.akri.sh', 'nodereports.akri.sh']

describeUnless(lacks, 'custom resources of the existing system', () => {
  let world: World
  let controller: HostController
  let agents: readonly NodeAgent[]
  /** Of the Instance. */
  let uid: string

  beforeAll(async () => {
    await setAvailable(true)
    world = await World.open()
    controller = new HostController('one', world.namespace)
    agents = await Promise.all(NODES.map((node) => NodeAgent.create(node)))
    await kubectl('delete', 'crd', ...KINDS)
    await kubectl('apply', '-f', EXISTING)
    await kubectl('wait', '--for=condition=Established', '-f', EXISTING)
  })

  afterAll(() =>
    tidyUp(
      async () => controller?.stop(),
      () => Promise.all((agents ?? []).map((agent) => agent.dispose())),
      () => withoutFinalizers(),
      // Without what the existing custom resources accepted.
      () => kubectl('delete', 'crd', ...KINDS, '--ignore-not-found'),
      () => applyCustomResources(world.client),
      async () => world?.close(),
    ),
  )

  /** A custom resource is not deleted before its objects. */
  const withoutFinalizers = async () => {
    for (const { metadata } of await world.instances())
      await world
        .api('Instance')
        .patch(world.key(metadata.name), 'merge', { metadata: { finalizers: null } })
  }
  const instance = async () =>
    (await world.get<InstanceState>('Instance', NAME)) ?? expect.fail('there is no Instance')
  const status = async () =>
    (await world.get<{ status?: ConfigurationStatus }>('Configuration', 'cam'))?.status
  const usage = async () => Object.entries((await instance()).spec.deviceUsage)

  it('have their devices offered and their claims kept, without a status', async () => {
    await world.apply(echoYaml('cam', ['foo0'], 3))
    const cam = await world.get<InstanceState>('Configuration', 'cam')
    const owner = { apiVersion: 'akri.sh/v0', kind: 'Configuration', name: 'cam' }
    const ownerReferences = [{ ...owner, uid: cam?.metadata.uid, controller: true }]
    const spec = {
      configurationName: 'cam',
      cdiName: 'akri.sh/cam=8120fe',
      capacity: 3,
      shared: true,
      brokerProperties: { DEBUG_ECHO_DESCRIPTION: 'foo0' },
    }
    const [first, second] = NODES.map((node) => new ExistingAgent(world, node))
    for (const existing of [first, second]) await existing?.join(NAME, spec, { ownerReferences })
    for (const existing of [first, second]) await existing?.finalize('Instance', NAME)
    uid = (await instance()).metadata.uid
    expect((await akri('migrate', 'check')).stdout).toContain(`Instance ${world.namespace}/${NAME}`)

    await controller.lead()
    for (const agent of agents) await agent.start()
    await eventually(async () =>
      expect(await world.allocatables(`akri.sh/${NAME}`)).toEqual([3, 3]),
    )
    await world.apply(podYaml('p', { [`akri.sh/${NAME}`]: 1 }, { node: NODE_1 }))
    await eventually(() => world.running('p'))
    await eventually(() =>
      expect(controller.output).toMatch(
        /nodereports\.akri\.sh: install it by kubectl.*"custom resource not installed"/,
      ),
    )
    expect(await status()).toBeUndefined()
    expect((await instance()).metadata.uid).toBe(uid)
  })

  it('become ours, and nothing is lost', async () => {
    await applyCustomResources(world.client)
    // Running programs notice too, within two minutes.
    await controller.stop()
    await controller.lead()
    for (const agent of agents) {
      await agent.stop()
      await agent.start()
    }
    await eventually(async () => {
      const { conditions = [] } = (await status()) ?? {}
      expect(conditions).toContainEqual(expect.objectContaining({ type: 'Ready', status: 'True' }))
      expect((await instance()).metadata).not.toHaveProperty('finalizers')
    })
    expect((await instance()).metadata.uid).toBe(uid)
    expect((await usage()).map(([, holder]) => holder)).toContain(NODE_1)
    await eventually(() => world.running('p'))
  })
})
