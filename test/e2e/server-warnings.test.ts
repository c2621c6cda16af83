import { objectKey, Resource } from '@akrijs/kube'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { applyCustomResources } from '../cluster/support/custom-resources.js'
import { akri } from './support/akri-command.js'
import { HostController } from './support/host-controller.js'
import { HostProgram } from './support/host-program.js'
import { NodeAgent } from './support/node-agent.js'
import { missingHere, NODE_1, setAvailable, unlessHere } from './support/nodes.js'
import { expectServerWarnings, unexpectedServerWarnings } from './support/server-warnings.js'
import { eventually, World } from './support/world.js'
import { HostWebhook } from './webhook/host-webhook.js'

const SENTENCE = 'akri.sh/v0 Configuration is old here'
const CRDS = { group: 'apiextensions.k8s.io', version: 'v1', plural: 'customresourcedefinitions' }
const SECRET = 'webhook-certificates'

expectServerWarnings(/is old here/)

describe.skipIf(missingHere() !== undefined)(`warnings of the API server${unlessHere}`, () => {
  const open: (() => unknown)[] = []
  let world: World

  beforeAll(async () => {
    await setAvailable(true)
    world = await World.open()
    await world.api('Secret').create(world.namespace, { metadata: { name: SECRET } })
    const crd = objectKey('', 'configurations.akri.sh')
    const change = [
      { op: 'add', path: '/spec/versions/0/deprecated', value: true },
      { op: 'add', path: '/spec/versions/0/deprecationWarning', value: SENTENCE },
    ] as const
    await new Resource(world.client, CRDS).patch(crd, 'json', change)
    // The server serves a changed custom resource a moment later.
    await eventually(async () => expect((await migrate()).stderr).toContain(SENTENCE))
  })

  afterEach(async () => {
    for (const close of open.splice(0).reverse()) await close()
  })

  afterAll(async () => {
    if (world === undefined) return
    await applyCustomResources(world.client)
    await eventually(async () => expect((await migrate()).stderr).toBe(''))
    await world.close()
  })

  const migrate = () => akri('migrate', 'forward', '--write')

  const programs: readonly [string, () => Promise<() => string | Promise<string>>][] = [
    [
      'agent',
      async () => {
        const agent = await NodeAgent.create(NODE_1)
        open.push(() => agent.dispose())
        await agent.start()
        return () => agent.output()
      },
    ],
    [
      'controller',
      async () => {
        const controller = new HostController('one', world.namespace)
        open.push(() => controller.stop())
        await controller.lead()
        return () => controller.output
      },
    ],
    [
      'webhook',
      async () => {
        const env = { POD_NAMESPACE: world.namespace, AKRI_CERTIFICATE_SECRET: SECRET }
        const webhook = await HostWebhook.create(env)
        open.push(() => webhook.stop())
        await webhook.start()
        return () => webhook.output
      },
    ],
    [
      'program that cleans up',
      async () => {
        const cleanup = new HostProgram('controller/dist/akri-cleanup.js')
        open.push(() => cleanup.stop())
        cleanup.launch({})
        return () => cleanup.output
      },
    ],
  ]

  it.each(programs)('reach the log of the %s, once', async (_, start) => {
    const output = await start()
    const warnings = async () =>
      (await output())
        .split('\n')
        .filter((line) => line.includes(SENTENCE))
        .map((line) => JSON.parse(line) as unknown)
    const warning = {
      level: 'warn',
      msg: 'API server warned',
      text: SENTENCE,
      request: expect.stringMatching(/^GET \/apis\/akri\.sh\/v0\//),
    }
    await eventually(async () =>
      expect(await warnings()).toEqual([expect.objectContaining(warning)]),
    )
  })

  it('reach the standard error of akri migrate, once', async () => {
    const { stderr } = await migrate()
    expect(stderr).toMatch(/^\S+ warn +API server warned text="akri\.sh\/v0 .* here" request=.*\n$/)
  })

  it('fail a test that does not expect them', async () => {
    const controller = new HostController('two', world.namespace)
    open.push(() => controller.stop())
    controller.start()
    await eventually(() => expect(controller.output).toContain(SENTENCE))
    expect(unexpectedServerWarnings([])).toEqual([expect.stringContaining(SENTENCE)])
    expect(unexpectedServerWarnings([])).toEqual([])
  })
})
