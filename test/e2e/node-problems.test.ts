import { execFileSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { RegistrationService } from '@akrijs/proto/device-plugin'
import { Server, ServerCredentials, type sendUnaryData, status } from '@grpc/grpc-js'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { missingForNoWatches, withoutWatches } from '../../agent/src/testing/run-script.js'
import { accessOfCluster } from '../cluster/support/client.js'
import { FaultProxy } from '../cluster/support/fault-proxy.js'
import { Account } from './support/account.js'
import { freePort } from './support/free-port.js'
import { NodeAgent } from './support/node-agent.js'
import { access, missingHere, NODE_1, setAvailable, unlessHere } from './support/nodes.js'
import { echoYaml, eventually, podYaml, World } from './support/world.js'

/** The Pod that stands for that of the agent. */
const AGENT_POD = 'agent-of-the-node'

const COUNTED = {
  StateNotWritten: /^akri_node_problems_total\{problem="StateNotWritten"\} [1-9]/m,
  ApiRequestFailed: /^akri_node_problems_total\{problem="ApiRequestFailed"\} [1-9]/m,
} as const

/** A line of the log at warn or error, with this text. */
const failure = (text: string) => new RegExp(`"level":"(warn|error)".*${text}`)

interface PodEvent {
  readonly reason: string
  readonly message: string
  readonly involvedObject: { readonly uid: string }
}

describe.skipIf(missingHere() !== undefined)(`problems of a node${unlessHere}`, () => {
  const open: (() => unknown)[] = []
  let world: World
  let uid: string | undefined
  let port: number

  beforeAll(async () => {
    await setAvailable(true)
    world = await World.open()
  })

  afterEach(async () => {
    for (const close of open.splice(0).reverse()) await close()
    await world.clear([NODE_1])
  })

  afterAll(() => world?.close())

  async function startAgent(
    env: Readonly<Record<string, string>>,
    prefix: readonly string[] = [],
  ): Promise<NodeAgent> {
    await world.apply(podYaml(AGENT_POD, {}, { node: NODE_1 }))
    uid = (await world.pods())[0]?.metadata.uid
    port = await freePort()
    const environment = {
      POD_NAME: AGENT_POD,
      POD_NAMESPACE: world.namespace,
      METRICS_PORT: String(port),
      ...env,
    }
    const agent = await NodeAgent.create(NODE_1, environment, { prefix })
    open.push(() => agent.dispose())
    await agent.start()
    await eventually(async () => {
      const answer = await fetch(`http://127.0.0.1:${port}/readyz`)
      expect(answer.status, `${await answer.text()}\n${(await agent.output()).slice(-2000)}`).toBe(
        200,
      )
    })
    return agent
  }

  /** The Events of the agent's Pod that `kubectl describe` shows. */
  async function events(): Promise<PodEvent[]> {
    const { items } = (await world.client.request({
      method: 'GET',
      path: `/api/v1/namespaces/${world.namespace}/events`,
      query: { fieldSelector: `involvedObject.uid=${uid},source=akri-agent` },
    })) as { items: PodEvent[] }
    return items
  }
  const metrics = async () => (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
  const directory = async () => {
    const made = await mkdtemp(path.join(os.tmpdir(), 'akri-p-'))
    open.push(() => rm(made, { recursive: true, force: true }))
    return made
  }

  /** One Event of the agent's Pod, and a count. @param message what it contains */
  async function shows(problem: keyof typeof COUNTED, message: RegExp): Promise<void> {
    await eventually(async () => expect(await metrics()).toMatch(COUNTED[problem]))
    await eventually(async () =>
      expect(await events()).toEqual([
        expect.objectContaining({ reason: problem, message: expect.stringMatching(message) }),
      ]),
    )
  }
  async function kubeconfigFor({ access: { server } }: FaultProxy): Promise<string> {
    const file = path.join(await directory(), 'config')
    const config = {
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [
        { name: 'test', cluster: { server: server.href, 'insecure-skip-tls-verify': true } },
      ],
      users: [{ name: 'agent', user: {} }],
      contexts: [{ name: 'test', context: { cluster: 'test', user: 'agent' } }],
      'current-context': 'test',
    }
    await writeFile(file, JSON.stringify(config))
    return file
  }

  it('a full disk shows as one Event, in a metric and in the log', async () => {
    const state = path.join(await directory(), 's')
    mkdirSync(state)
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', state])
    open.push(() => execFileSync('umount', ['-l', state]))
    const agent = await startAgent({ AKRI_STATE_DIRECTORY: state })
    // Ends with an error when the disk is full.
    execFileSync('sh', ['-c', `dd if=/dev/zero of=${state}/rest bs=4k 2>/dev/null || true`])
    for (const count of [1, 2, 3]) {
      const devices = Array.from({ length: count }, (_, index) => `foo${index}`)
      await world.apply(echoYaml('cam', devices, 1))
      await eventually(async () =>
        expect(await metrics()).toMatch(
          new RegExp(
            `^akri_node_problems_total\\{problem="DiskFull"\\} ([${count}-9]|\\d\\d)`,
            'm',
          ),
        ),
      )
    }
    await eventually(async () =>
      expect(await events()).toEqual([
        expect.objectContaining({
          reason: 'DiskFull',
          message: expect.stringMatching(
            new RegExp(`^node ${NODE_1}: a disk of the node is full: .*ENOSPC`),
          ),
        }),
      ]),
    )
    expect(await agent.output()).toContain('"checkpoint not written"')
  })

  it('a state that cannot be written shows as one Event, in a metric and in the log', async () => {
    const state = path.join(await directory(), 's')
    mkdirSync(state)
    execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', state])
    open.push(() => execFileSync('umount', ['-l', state]))
    const agent = await startAgent({ AKRI_STATE_DIRECTORY: state })
    execFileSync('mount', ['-o', 'remount,ro', state])
    await world.apply(echoYaml('cam', ['foo0'], 1))
    await shows('StateNotWritten', /EROFS/)
    await eventually(async () => expect(await agent.output()).toContain('"checkpoint not written"'))
    // The device is served all the same.
    await eventually(async () => expect(await world.allocatable(NODE_1, 'akri.sh/cam')).toBe(1))
  })

  it.each([429, 500])(
    'an API server that answers %i shows as one Event once it is well, in a metric and in the log',
    async (code) => {
      const proxy = await FaultProxy.open(await accessOfCluster())
      open.push(() => proxy.close())
      const agent = await startAgent({ KUBECONFIG: await kubeconfigFor(proxy) })
      proxy.refuse(code)
      // Open watches go on: the agent gets the Configuration, and cannot make the Instance.
      await world.apply(echoYaml('cam', ['foo0'], 1))
      await eventually(async () => expect(await metrics()).toMatch(COUNTED.ApiRequestFailed))
      await eventually(async () => expect(await agent.output()).toMatch(failure(String(code))))
      expect(await events()).toEqual([])
      proxy.heal()
      await shows('ApiRequestFailed', new RegExp(`\\b${code}\\b`))
      await eventually(async () => expect(await world.instances()).toHaveLength(1))
    },
  )

  it('rights that are taken away show as one Event, in a metric and in the log', async () => {
    const account = await Account.create(world.client, 'agent', world.namespace)
    open.push(() => account.dispose())
    const agent = await startAgent({ KUBECONFIG: account.kubeconfig })
    const url = `/apis/rbac.authorization.k8s.io/v1/clusterroles/akri-agent-role-${world.namespace}`
    const { rules } = (await world.client.request({ method: 'GET', path: url })) as {
      rules: readonly { readonly resources: readonly string[] }[]
    }
    const writeRules = (body: unknown) =>
      world.client.request({ method: 'PATCH', path: url, patch: 'merge', body: { rules: body } })
    const verbs = ['get', 'list', 'watch']
    await writeRules(
      rules.map((rule) => (rule.resources.includes('instances') ? { ...rule, verbs } : rule)),
    )
    await world.apply(echoYaml('cam', ['foo0'], 1))
    await shows('ApiRequestFailed', /\b403\b.*instances/)
    await eventually(async () => expect(await agent.output()).toMatch(failure('403')))
    expect(await world.instances()).toEqual([])
    await writeRules(rules)
    await eventually(async () => expect(await world.instances()).toHaveLength(1))
  })

  it.for([
    ['EMFILE', 'max_inotify_instances'],
    ['ENOSPC', 'max_inotify_watches'],
  ] as const)(
    'A21 a user without watches (%s) shows as one warning, and a restarted kubelet is found',
    async ([code, limit], { skip }) => {
      const lacks = missingForNoWatches()
      skip(lacks !== undefined, lacks)
      const agent = await startAgent({}, withoutWatches(limit))
      const podOf = (name: string) => podYaml(name, { 'akri.sh/cam': 1 }, { node: NODE_1 })
      await world.apply(echoYaml('cam', ['foo0'], 2))
      await eventually(async () => expect(await world.allocatable(NODE_1, 'akri.sh/cam')).toBe(1))
      await world.apply(podOf('p'))
      await eventually(() => world.running('p'))
      await world.remove('Pod', 'p')

      await access.killKubelet(NODE_1)
      await eventually(async () => expect(await agent.output()).toContain('"kubelet restarted"'))
      // One registration for each plugin. The kubelet's count started at zero.
      await eventually(async () =>
        expect(await world.registrations(NODE_1)).toBeGreaterThanOrEqual(2),
      )
      await eventually(async () => expect(await world.allocatable(NODE_1, 'akri.sh/cam')).toBe(1))
      await world.apply(podOf('q'))
      await eventually(() => world.running('q'))

      const lines = (await agent.output()).split('\n').filter((line) => line.includes(code))
      expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual([
        expect.objectContaining({
          level: 'warn',
          msg: 'kubelet directory not watched, and polled instead',
          pollMs: 2000,
        }),
      ])
    },
  )

  it('a kubelet that refuses plugins shows as one Event, in metrics and in the log', async () => {
    const plugins = await directory()
    const kubelet = new Server()
    kubelet.addService(RegistrationService, {
      register: (_call: unknown, done: sendUnaryData<object>) =>
        done({ code: status.INVALID_ARGUMENT, details: 'no plugins today' }),
    })
    await new Promise<void>((resolve, reject) =>
      kubelet.bindAsync(
        `unix:${plugins}/kubelet.sock`,
        ServerCredentials.createInsecure(),
        (error) => (error ? reject(error) : resolve()),
      ),
    )
    open.push(() => kubelet.forceShutdown())
    const agent = await startAgent({ KUBELET_PLUGIN_DIRECTORY: plugins })
    await world.apply(echoYaml('cam', ['foo0', 'foo1'], 1))
    await eventually(async () =>
      expect(await metrics()).toMatch(
        /^akri_node_problems_total\{problem="RegistrationFailed"\} ([5-9]|\d\d)/m,
      ),
    )
    expect(await metrics()).toMatch(/^akri_plugin_registrations_total\{result="failed"\} [1-9]/m)
    await eventually(async () =>
      expect(await events()).toEqual([
        expect.objectContaining({
          reason: 'RegistrationFailed',
          message: expect.stringContaining('INVALID_ARGUMENT: no plugins today'),
        }),
      ]),
    )
    expect(await agent.output()).toMatch(failure('no plugins today'))
  })
})
