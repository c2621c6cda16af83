import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { readFile, rename, rm } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import type { Configuration } from '@akrijs/api'
import { objectKey, PODS, Resource } from '@akrijs/kube'
import {
  type Empty,
  type RegisterRequest,
  RegistrationClient,
  RegistrationService,
} from '@akrijs/proto/device-plugin'
import { credentials, Server, ServerCredentials, type sendUnaryData } from '@grpc/grpc-js'
import { loadAll } from 'js-yaml'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { Account } from './support/account.js'
import { HostController } from './support/host-controller.js'
import { HostProgram } from './support/host-program.js'
import { kubectl } from './support/kubectl.js'
import { NodeAgent } from './support/node-agent.js'
import {
  access,
  missingHere,
  NODE_1,
  NODE_2,
  onNode,
  setAvailable,
  unlessHere,
} from './support/nodes.js'
import { echoYaml, eventually, podYaml, World } from './support/world.js'

// What the status of a Configuration says is so.

const run = promisify(execFile)

const MANIFESTS = path.join(import.meta.dirname, '../../deploy/manifests')
/** An agent may be silent for so long. */
const GRACE_SECONDS = 5
/** The Pod that stands for the agent of the second node. */
const AGENT_POD = 'agent-of-the-second-node'
/** The condition that decides whether this Pod is ready. */
const GATE = 'akri.sh/test'

describe.skipIf(missingHere() !== undefined)(`the truth of conditions${unlessHere}`, () => {
  let world: World
  let controller: HostController
  let account: Account | undefined
  const agents: NodeAgent[] = []

  beforeAll(async () => {
    await setAvailable(true)
    world = await World.open()
    // The agent of the second node has the rights of the manifests, and the other one all rights.
    account = await Account.create(world.client, 'agent', world.namespace)
    const env = {
      POD_NAME: AGENT_POD,
      POD_NAMESPACE: world.namespace,
      KUBECONFIG: account.kubeconfig,
    }
    agents.push(await NodeAgent.create(NODE_1), await NodeAgent.create(NODE_2, env))
    const pod = JSON.parse(podYaml(AGENT_POD, {}, { node: NODE_2 }))
    pod.metadata.labels = { 'app.kubernetes.io/name': 'akri-agent' }
    pod.spec.readinessGates = [{ conditionType: GATE }]
    await world.apply(JSON.stringify(pod))
    await setAgentReady(true)
    for (const agent of agents) await agent.start()
    controller = new HostController('one', world.namespace, {
      AKRI_NODE_GRACE: String(GRACE_SECONDS),
    })
    await controller.lead()
  })

  afterEach(async () => {
    for (const { metadata } of await world.list<Configuration>('Configuration'))
      await world.remove('Configuration', metadata.name)
    await eventually(async () => expect(await world.instances()).toEqual([]))
    // The status of a node lags: an old status must not pass for the next one.
    await eventually(async () => {
      for (const count of await world.allocatables('akri.sh/cam')) expect(count ?? 0).toBe(0)
    })
  })

  afterAll(async () => {
    for (const agent of agents) await agent.dispose()
    await controller?.stop()
    await account?.dispose()
    await world?.close()
  })

  async function setAgentReady(isReady: boolean): Promise<void> {
    const conditions = [{ type: GATE, status: isReady ? 'True' : 'False' }]
    const metadata = { name: AGENT_POD, namespace: world.namespace }
    const object = { apiVersion: 'v1', kind: 'Pod', metadata, status: { conditions } }
    await new Resource(world.client, PODS).apply(
      objectKey(world.namespace, AGENT_POD),
      object,
      'akri-test',
      { subresource: 'status' },
    )
  }
  /** Applies `read-secrets` for the account of the agent. */
  async function allowSecrets(): Promise<void> {
    const text = readFileSync(path.join(MANIFESTS, 'read-secrets/role.yaml'), 'utf8')
    const [role, binding] = loadAll(text) as { subjects?: object[] }[]
    const subjects = binding?.subjects?.map((each) => ({ ...each, namespace: world.namespace }))
    const base = `/apis/rbac.authorization.k8s.io/v1/namespaces/${world.namespace}`
    for (const [plural, body] of [
      ['roles', role],
      ['rolebindings', { ...binding, subjects }],
    ] as const)
      await world.client.request({ method: 'POST', path: `${base}/${plural}`, body })
  }
  const status = async () => (await world.get<Configuration>('Configuration', 'cam'))?.status
  const condition = async (type: string) =>
    (await status())?.conditions.find((candidate) => candidate.type === type)
  const becomes = (type: string, expected: object) =>
    eventually(async () => expect(await condition(type)).toMatchObject(expected))

  it('Ready is unknown while the agent of a node with devices is silent', async () => {
    await world.apply(echoYaml('cam', ['foo0'], 1))
    await eventually(async () =>
      expect(await status()).toMatchObject({ nodeCounts: { ready: 2, silent: 0 } }),
    )
    await becomes('Ready', { status: 'True' })
    const shown = await kubectl('-n', world.namespace, 'get', 'akric', 'cam')
    expect(shown).toMatch(/^NAME +CAPACITY +DEVICES +SLOTS +FREE +READY +REASON +AGE/)
    expect(shown).toMatch(/^cam +1 +1 +1 +1 +True +AllDevicesServed /m)
    await setAgentReady(false)
    await becomes('Ready', {
      status: 'Unknown',
      reason: 'AgentSilent',
      message: expect.stringContaining(`1 node is silent: ${NODE_2}`),
    })
    await setAgentReady(true)
    await becomes('Ready', { status: 'True' })
  })

  it('Ready is unknown while a node with devices is not ready', async () => {
    await world.apply(echoYaml('cam', ['foo0'], 1))
    await eventually(async () => expect((await status())?.nodeCounts?.ready).toBe(2))
    await onNode(NODE_2, '--restart', 'kubelet', 'STOP')
    try {
      await eventually(async () => expect(await world.isReady(NODE_2)).toBe(false))
      await becomes('Ready', {
        status: 'Unknown',
        reason: 'AgentSilent',
        message: expect.stringContaining(`1 node is silent: ${NODE_2}`),
      })
      expect((await status())?.nodeCounts).toMatchObject({ ready: 1, silent: 1 })
    } finally {
      await onNode(NODE_2, '--restart', 'kubelet', 'CONT')
    }
    await becomes('Ready', { status: 'True', reason: 'AllDevicesServed' })
    await eventually(async () => expect(await world.allocatables('akri.sh/cam')).toEqual([1, 1]))
  })

  it('HandlersReady tells a handler that is missing, that works, and that fails', async () => {
    const handler = new HostProgram('sdk/dist/akri-handler.js')
    const { directory } = agents[0] ?? expect.fail('no agent')
    const camera = { discoveryHandler: { name: 'onvif' } }
    await world.apply(JSON.stringify({ ...JSON.parse(echoYaml('cam', [], 1)), spec: camera }))
    await becomes('HandlersReady', { status: 'False', reason: 'NoHandler' })
    try {
      handler.launch({ DISCOVERY_HANDLERS_DIRECTORY: path.join(directory, 'h') }, [
        path.resolve(import.meta.dirname, '../../handlers/onvif/dist/index.js'),
      ])
      await becomes('HandlersReady', {
        status: 'True',
        reason: 'HandlersWork',
        message: expect.stringMatching(/^the handler works on 1 of 2 nodes; the others do not/),
      })
      await handler.stop('SIGKILL')
      await becomes('HandlersReady', { status: 'False' })
    } finally {
      await handler.stop()
    }
  })

  it('PropertiesResolved tells a missing right from a missing object', async () => {
    const from = { valueFrom: { secretKeyRef: { name: 'lab', key: 'token' } } }
    const discoveryProperties = [{ name: 'TOKEN', ...from }]
    const { spec, ...rest } = JSON.parse(echoYaml('cam', ['foo0'], 1))
    const discoveryHandler = { ...spec.discoveryHandler, discoveryProperties }
    await world.apply(JSON.stringify({ ...rest, spec: { ...spec, discoveryHandler } }))
    await becomes('PropertiesResolved', {
      status: 'False',
      reason: 'PropertyForbidden',
      message: expect.stringMatching(
        new RegExp(`1 of 2 nodes; ${NODE_2}: .* Role akri-agent-read-secrets`),
      ),
    })
    await allowSecrets()
    await becomes('PropertiesResolved', {
      status: 'False',
      reason: 'MissingProperty',
      message: expect.stringContaining(`there is no Secret ${world.namespace}/lab`),
    })
    await world.apply(
      JSON.stringify({
        apiVersion: 'v1',
        kind: 'Secret',
        metadata: { name: 'lab' },
        stringData: { token: 'x' },
      }),
    )
    await becomes('PropertiesResolved', { status: 'True', reason: 'Resolved' })
    await becomes('Ready', { status: 'True' })
  })

  it('the report of a node has the Pods that use slots', async () => {
    await world.apply(echoYaml('cam', ['foo0'], 2))
    await eventually(async () => expect(await world.allocatable(NODE_1, 'akri.sh/cam')).toBe(1))
    await world.apply(podYaml('user', { 'akri.sh/cam': 1 }, { node: NODE_1 }))
    const [instance = expect.fail('no Instance')] = await world.instances()
    const { name } = instance.metadata
    const page = await readFile(path.join(import.meta.dirname, '../../docs/operators.md'), 'utf8')
    const [, command = expect.fail('the page has no such command')] =
      /^### Which Pod uses which slot$.*?^```sh\n(.*?)^```$/ms.exec(page) ?? []
    const ofInstance = command.replace('factory/cameras-8120fe', `${world.namespace}/${name}`)
    const shown = async () => (await run('sh', ['-ec', ofInstance])).stdout
    await eventually(async () =>
      expect(await shown()).toMatch(
        new RegExp(`^${NODE_1} ${name}-[01] ${world.namespace}/user 20[0-9-]+T[0-9:]+Z$`, 'm'),
      ),
    )
    await world.remove('Pod', 'user')
    await eventually(async () => expect(await shown()).toBe(''))
  })

  it('Ready is false while a kubelet cannot be reached', async () => {
    const directory = path.join(access.kubeletDirectory(NODE_1), 'device-plugins')
    const [socket, moved] = [`${directory}/kubelet.sock`, `${directory}/kubelet-moved.sock`]
    await rename(socket, moved)
    try {
      await world.apply(echoYaml('cam', ['foo0'], 1))
      await becomes('Ready', {
        status: 'False',
        reason: 'KubeletUnavailable',
        message: expect.stringMatching(new RegExp(`1 of 2 nodes; ${NODE_1}: .*akri\\.sh/cam`)),
      })
    } finally {
      await rename(moved, socket)
    }
    await becomes('Ready', { status: 'True' })
    await eventually(async () => expect(await world.allocatables('akri.sh/cam')).toEqual([1, 1]))
  })

  it('Ready has the answer of a kubelet that refuses device plugins', async () => {
    await world.apply(echoYaml('cam', ['foo0'], 1))
    await becomes('Ready', { status: 'True' })
    await eventually(async () => expect(await world.allocatable(NODE_1, 'akri.sh/cam')).toBe(1))
    const restore = await speakUnknownVersion(NODE_1)
    try {
      await becomes('Ready', {
        status: 'False',
        reason: 'RegistrationRefused',
        message: expect.stringMatching(
          new RegExp(`${NODE_1}: the kubelet did not take akri\\.sh/cam.* is not supported`),
        ),
      })
    } finally {
      await restore()
    }
    await becomes('Ready', { status: 'True' })
    await eventually(async () => expect(await world.allocatable(NODE_1, 'akri.sh/cam')).toBe(1))
  })
})

/**
 * Passes registrations on to the kubelet with a version that it does not know.
 * @returns ends that
 */
async function speakUnknownVersion(node: string): Promise<() => Promise<void>> {
  const directory = path.join(access.kubeletDirectory(node), 'device-plugins')
  const [socket, moved] = ['kubelet.sock', 'kubelet-moved.sock'].map((name) =>
    path.join(directory, name),
  ) as [string, string]
  await rename(socket, moved)
  const client = new RegistrationClient(`unix:${moved}`, credentials.createInsecure())
  const server = new Server()
  server.addService(RegistrationService, {
    register: ({ request }: { request: RegisterRequest }, done: sendUnaryData<Empty>) =>
      client.register({ ...request, version: 'v9' }, (error, answer) => done(error, answer)),
  })
  await new Promise<void>((resolve, reject) =>
    server.bindAsync(`unix:${socket}`, ServerCredentials.createInsecure(), (error) =>
      error ? reject(error) : resolve(),
    ),
  )
  return async () => {
    server.forceShutdown()
    client.close()
    await rm(socket, { force: true })
    await rename(moved, socket)
  }
}
