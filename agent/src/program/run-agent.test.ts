import { createHash } from 'node:crypto'
import { once } from 'node:events'
import {
  mkdir,
  mkdtemp,
  open,
  readdir,
  readFile,
  rename,
  rm,
  symlink,
  writeFile,
} from 'node:fs/promises'
import http from 'node:http'
import { type AddressInfo, createServer } from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import { inspect } from 'node:util'
import { SimulatedKubelet } from '@akrijs/kube/kubelet'
import { FakeApiServer } from '@akrijs/kube/testing'
import { RegistrationService } from '@akrijs/proto/device-plugin'
import {
  type Logger,
  type LogMethod,
  silentLogger,
  systemClock,
  temporaryOf,
} from '@akrijs/runtime'
import { defineDiscoveryHandler } from '@akrijs/runtime/handler'
import { runInContext } from '@akrijs/runtime/program'
import { ManualClock } from '@akrijs/runtime/testing'
import { serve } from '@akrijs/sdk'
import { Server, ServerCredentials, type sendUnaryData, status } from '@grpc/grpc-js'
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { z } from 'zod'
import { eventually } from '../../../test/support/eventually.js'
import type { AgentProgramOptions } from './agent-options.js'
import { runAgent } from './run-agent.js'

/** Runs before each start of a process. */
const spawning = vi.hoisted(() => ({ before: () => {} }))
vi.mock(import('node:child_process'), async (importOriginal) => {
  const original = await importOriginal()
  const spawn = new Proxy(original.spawn, {
    apply(target, self, args) {
      spawning.before()
      return Reflect.apply(target, self, args)
    },
  })
  return { ...original, spawn }
})

let directory: string
let api: http.Server
/** Whether the API server answers, with no objects at all. */
let serving: boolean
/** The objects that were created. */
let posted: unknown[]
let stop: AbortController
let running: Promise<void> | undefined
let clock: ManualClock

beforeEach(async () => {
  directory = await mkdtemp(path.join(os.tmpdir(), 'akri-run-'))
  serving = false
  posted = []
  stop = new AbortController()
  clock = new ManualClock()
  api = http.createServer((request, response) => {
    if (!serving) return response.writeHead(503).end()
    if (request.method === 'POST') {
      void text(request).then((body) => posted.push(JSON.parse(body)))
      return response.writeHead(201, { 'content-type': 'application/json' }).end('{}')
    }
    response.writeHead(200, { 'content-type': 'application/json' })
    // A watch goes on, and tells of nothing.
    if (request.url?.includes('watch=')) return response.flushHeaders()
    return response.end(
      JSON.stringify({
        apiVersion: 'v1',
        kind: 'List',
        metadata: { resourceVersion: '1' },
        items: [],
      }),
    )
  })
  await once(api.listen(0, '127.0.0.1'), 'listening')
})

afterEach(async () => {
  stop.abort()
  await running
  api.closeAllConnections()
  await new Promise((resolve) => api.close(resolve))
  await rm(directory, { recursive: true, force: true })
})

function serverOfApi(): string {
  const { port } = api.address() as AddressInfo
  return `http://127.0.0.1:${port}`
}

async function kubeconfig(server = serverOfApi()): Promise<string> {
  const file = path.join(directory, 'kubeconfig')
  const cluster = { name: 'c', cluster: { server, 'insecure-skip-tls-verify': true } }
  const context = { name: 'x', context: { cluster: 'c', user: 'u' } }
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'x',
    clusters: [cluster],
    contexts: [context],
  }
  await writeFile(file, JSON.stringify({ ...config, users: [{ name: 'u', user: {} }] }))
  return file
}

async function freePort(): Promise<number> {
  const probe = http.createServer().listen(0)
  await once(probe, 'listening')
  const { port } = probe.address() as AddressInfo
  await new Promise((resolve) => probe.close(resolve))
  return port
}

async function optionsOf(handlersDirectory: string, pluginDirectory: string, metricsPort: number) {
  return {
    node: 'node-a',
    pod: undefined,
    podNamespace: undefined,
    handlersDirectory,
    pluginDirectory,
    podResourcesSocket: path.join(directory, 'r.sock'),
    criSocket: undefined,
    stateDirectory: path.join(directory, 's'),
    brokerInfo: 'on',
    handler: [],
    handlerMounts: [],
    handlerAddresses: [],
    handlerDevices: [],
    handlerEnvironment: [],
    isolated: 'off',
    handlerVariables: [],
    handlersGroup: undefined,
    kubeconfig: await kubeconfig(),
    metricsPort,
    unhealthyAfter: 30,
    removeAfter: 300,
    maxConfigurationDevices: 1000,
    maxDevices: 2000,
    maxSlots: 20_000,
    maxResourceNames: 4000,
    newResourceNames: 500,
    slotGrace: undefined,
    slotHandover: 15,
    compatibility: 'off',
    logLevel: 'error',
  } as const
}

function run(options: AgentProgramOptions): Promise<void> {
  return runInContext({ log: silentLogger, signal: stop.signal }, (context) =>
    runAgent(options, { packagesFrom: directory, clock, ...context }),
  )
}

/** Waits while the time of the agent passes. */
const later = (look: () => unknown) =>
  eventually(async () => {
    await clock.advance(1000)
    await look()
  })

it('A23 the agent answers probes, has metrics, and leaves no socket and no port', async () => {
  const metricsPort = await freePort()
  const [handlers, plugins] = [path.join(directory, 'h'), path.join(directory, 'p')]
  const options = await optionsOf(handlers, plugins, metricsPort)
  running = run(options)
  const ask = async (at: string) => {
    const answer = await fetch(`http://127.0.0.1:${metricsPort}${at}`)
    return [answer.status, await answer.text()] as const
  }
  // The agent waits for an unreachable cluster: its probes do not lead to a restart.
  await eventually(async () =>
    expect(await ask('/readyz')).toEqual([
      503,
      expect.stringContaining('waiting for the API server'),
    ]),
  )
  expect((await ask('/healthz'))[0]).toBe(200)
  serving = true
  await later(async () => expect((await ask('/readyz'))[0]).toBe(200))
  expect((await ask('/healthz'))[0]).toBe(200)
  expect((await ask('/metrics'))[1]).toMatch(
    /^akri_api_requests_total\{method="GET",status="200"\} [1-9]/m,
  )
  expect(await readdir(handlers)).toEqual(['agent-registration.sock'])
  await rm(path.join(handlers, 'agent-registration.sock'))
  await eventually(async () =>
    expect(await ask('/healthz')).toEqual([
      503,
      `${handlers}/agent-registration.sock does not answer\n`,
    ]),
  )

  stop.abort()
  await running
  await expect(ask('/healthz')).rejects.toThrow()
  expect([await readdir(handlers), await readdir(plugins)]).toEqual([[], []])
})

it('an API server that failed shows as an Event of the Pod of the agent', async () => {
  const options = await optionsOf(
    path.join(directory, 'h'),
    path.join(directory, 'p'),
    await freePort(),
  )
  running = run({ ...options, pod: 'akri-agent-x', podNamespace: 'akri' })
  const metrics = `http://127.0.0.1:${options.metricsPort}/metrics`
  await later(async () =>
    expect(await (await fetch(metrics)).text()).toMatch(
      /^akri_node_problems_total\{problem="ApiRequestFailed"\} [1-9]/m,
    ),
  )
  expect(posted).toEqual([])
  serving = true
  await later(() =>
    expect(posted).toContainEqual(
      expect.objectContaining({
        kind: 'Event',
        reason: 'ApiRequestFailed',
        involvedObject: expect.objectContaining({
          apiVersion: 'v1',
          kind: 'Pod',
          namespace: 'akri',
          name: 'akri-agent-x',
        }),
      }),
    ),
  )
})

it('a start that fails after the agent was started leaves no socket', async () => {
  serving = true
  const [handlers, plugins] = [path.join(directory, 'h'), path.join(directory, 'p')]
  const options = await optionsOf(handlers, plugins, await freePort())
  // No SDK can be resolved from the directory: the handlers cannot be started.
  let problem: unknown
  run({ ...options, isolated: 'on' }).catch((error: unknown) => {
    problem = error
  })
  await later(() => expect(String(problem)).toContain('@akrijs/sdk is not installed'))
  expect(await readdir(handlers)).toEqual([])
})

const LAB = '/apis/akri.sh/v0/namespaces/default/configurations/lab'

/** An API server with a Configuration, and a kubelet. */
async function environmentWith(discoveryHandler: object) {
  const server = new FakeApiServer(systemClock)
  const kubelet = await SimulatedKubelet.start({ directory: path.join(directory, 'k') })
  onTestFinished(async () => {
    stop.abort()
    await running
    spawning.before = () => {}
    await kubelet.close()
    await server.close()
  })
  const { metadata } = server.put(LAB, {
    apiVersion: 'akri.sh/v0',
    kind: 'Configuration',
    spec: { discoveryHandler, capacity: 1 },
  })
  const options = {
    ...(await optionsOf(path.join(directory, 'h'), kubelet.pluginDirectory, await freePort())),
    kubeconfig: await kubeconfig((await server.listen()).href),
    podResourcesSocket: kubelet.podResourcesSocket,
  }
  await mkdir(options.handlersDirectory, { mode: 0o700 })
  return { server, kubelet, options, uid: metadata.uid }
}

/** The same, and the checkpoint of an agent with a device. */
async function environmentWithCheckpoint() {
  const opened = await environmentWith({ name: 'sensor', discoveryDetails: '' })
  const { server, kubelet, options, uid } = opened
  const lists = [{ endpoint: 'sensor', shared: true, devices: [{ id: 'foo0' }] }]
  const discovery = { 'default/lab': { uid, lists } }
  await mkdir(options.stateDirectory)
  const checkpoint = path.join(options.stateDirectory, 'checkpoint.json')
  await writeFile(checkpoint, JSON.stringify({ version: 1, node: options.node, discovery }))
  return { server, kubelet, options, checkpoint }
}

/** The texts of the files below a directory, by name. */
async function filesBelow(place: string): Promise<Record<string, string>> {
  const entries = await readdir(place, { recursive: true, withFileTypes: true })
  const read = async ({ parentPath, name }: { parentPath: string; name: string }) =>
    // A file that a rename has just replaced is found by its new name.
    [name, await readFile(path.join(parentPath, name), 'utf8').catch(() => '')] as const
  return Object.fromEntries(await Promise.all(entries.filter((each) => each.isFile()).map(read)))
}

it('A7 a Secret reaches its handler after each change, and no log, file or object', async () => {
  const digestOf = (value: string) => createHash('sha256').update(value).digest('hex')
  /** Finds one device, and reports a digest of its token, not the token. */
  const sensor = defineDiscoveryHandler({
    name: 'sensor',
    shared: true,
    details: z.unknown(),
    async *discover({ properties }) {
      const token = properties.text('token')
      const DIGEST = token === undefined ? 'none' : digestOf(token)
      yield [{ id: 'foo0', properties: { DIGEST } }]
    },
  })
  const from = { valueFrom: { secretKeyRef: { name: 'lab', key: 'token', optional: true } } }
  const { server, options } = await environmentWith({
    name: 'sensor',
    discoveryDetails: '',
    discoveryProperties: [{ name: 'token', ...from }],
  })
  const lines: string[] = []
  const write: LogMethod = (fields, message) =>
    void lines.push(inspect({ fields, message }, { depth: Number.POSITIVE_INFINITY }))
  const log: Logger = { debug: write, info: write, warn: write, error: write, child: () => log }
  const begin = async () => {
    stop = new AbortController()
    running = runInContext({ log, signal: stop.signal }, (context) =>
      runAgent(options, { packagesFrom: directory, ...context }),
    )
  }
  const SECRET = '/api/v1/namespaces/default/secrets/lab'
  const shows = (digest: string) =>
    eventually(async () => {
      const instance = server.objects.get(
        '/apis/akri.sh/v0/namespaces/default/instances/lab-8120fe',
      )
      expect(instance?.spec).toMatchObject({ brokerProperties: { DIGEST: digest } })
      const { 'checkpoint.json': checkpoint } = await filesBelow(options.stateDirectory)
      expect(checkpoint).toContain(digest)
    })
  const values = ['s3cret-word', 'an0ther-word']
  const expectNowhere = async () => {
    const { [SECRET]: _secret, ...objects } = Object.fromEntries(server.objects)
    const places = {
      ...(await filesBelow(directory)),
      objects: JSON.stringify(objects),
      requests: JSON.stringify(server.requests),
      log: lines.join('\n'),
    }
    for (const [place, text] of Object.entries(places))
      for (const value of values)
        for (const encoding of ['utf8', 'base64', 'hex'] as const)
          expect(text.includes(Buffer.from(value).toString(encoding)), place).toBe(false)
  }
  await begin()
  const served = await serve(sensor, { directory: options.handlersDirectory, log: silentLogger })
  onTestFinished(() => served.close())
  await shows('none')
  for (const value of values) {
    server.put(SECRET, { data: { token: Buffer.from(value).toString('base64') } })
    await shows(digestOf(value))
    await expectNowhere()
  }
  // A restarted agent must not log the Secret either.
  stop.abort()
  await running
  await begin()
  server.remove(SECRET)
  await shows('none')
  expect(lines.join('\n')).toMatch(/agent started.*agent started/s)
  await expectNowhere()
})

it('an agent offers no more new names of resources than the Node has room for', async () => {
  const discoveryHandler = { name: 'sensor', discoveryDetails: '' }
  const { server, kubelet, options } = await environmentWith(discoveryHandler)
  const old = Array.from({ length: 30 }, (_, index) => [`akri.sh/old-${index}`, '0'])
  server.put('/api/v1/nodes/node-a', { status: { capacity: Object.fromEntries(old) } })
  // For the Configuration, and for two of four devices.
  const maxResourceNames = old.length + 3
  running = runInContext({ log: silentLogger, signal: stop.signal }, (context) =>
    runAgent({ ...options, maxResourceNames }, { packagesFrom: directory, ...context }),
  )
  const sensor = defineDiscoveryHandler({
    name: 'sensor',
    shared: true,
    details: z.unknown(),
    async *discover() {
      yield ['foo0', 'foo1', 'foo2', 'foo3'].map((id) => ({ id }))
    },
  })
  const served = await serve(sensor, { directory: options.handlersDirectory, log: silentLogger })
  onTestFinished(() => served.close())
  await eventually(() =>
    expect(JSON.stringify(server.objects.get('/apis/akri.sh/v0/nodereports/node-a'))).toContain(
      '"reason":"TooManyResources"',
    ),
  )
  expect(kubelet.resources).toHaveLength(3)
  expect(kubelet.resources).toContain('akri.sh/lab')
})

it('an agent ends in time while the API server does not answer', async () => {
  const { server, kubelet, options } = await environmentWithCheckpoint()
  let isWriting = false
  server.before = ({ method, path: of }) => {
    if (method !== 'POST' || !of.endsWith('/instances')) return undefined
    isWriting = true
    return new Promise(() => {})
  }
  running = run(options)
  await later(() => expect(isWriting).toBe(true))
  stop.abort()
  // The kubelet kills the agent after 20 s.
  await clock.advance('19s')
  await running
  expect(kubelet.resources).toContain('akri.sh/lab-8120fe')
})

it('an agent that lost its kubelet is not ready, and ends', async () => {
  const metricsPort = await freePort()
  const [handlers, plugins] = [path.join(directory, 'h'), path.join(directory, 'p')]
  await mkdir(plugins)
  // As a container sees a directory that was replaced on its node.
  const mounted = await open(plugins)
  onTestFinished(() => mounted.close())
  serving = true
  const options = await optionsOf(handlers, `/proc/self/fd/${mounted.fd}`, metricsPort)
  const ended = run(options).catch((error: unknown) => error)
  running = ended.then(() => {})
  const ready = () => fetch(`http://127.0.0.1:${metricsPort}/readyz`)
  await later(async () => expect((await ready()).status).toBe(200))
  // The socket of a kubelet that was killed.
  const killed = createServer().listen(path.join(plugins, 'a.sock'))
  await once(killed, 'listening')
  await rename(path.join(plugins, 'a.sock'), path.join(plugins, 'kubelet.sock'))
  await new Promise((resolve) => killed.close(resolve))
  await later(async () => expect((await ready()).status).toBe(503))
  await rm(plugins, { recursive: true })
  await later(() => expect(Promise.race([ended, undefined])).resolves.toBeDefined())
  expect(await ended).toMatchObject({ code: 'AKRI_ERR_KUBELET_GONE' })
})

/** Installs a package in the directory of the test. */
async function install(name: string, manifest: object, module: string, text: string) {
  const home = path.join(directory, 'node_modules', name)
  await mkdir(path.join(home, 'dist'), { recursive: true })
  await writeFile(path.join(home, 'package.json'), JSON.stringify({ name, ...manifest }))
  await writeFile(path.join(home, module), text)
}

it('a restarted agent offers its checkpoint before it starts isolated handlers', async () => {
  const { kubelet, options } = await environmentWithCheckpoint()
  await install(
    'sensor',
    { main: 'dist/main.js', akri: { contract: 1, handlers: [{ name: 'sensor' }] } },
    'dist/main.js',
    '',
  )
  // A program that serves no handler, and ends with its standard input.
  await install('@akrijs/sdk', {}, 'dist/akri-handler.js', 'process.stdin.resume()')

  const atStart = new Promise<string[]>((resolve) => {
    spawning.before = () => resolve(kubelet.resources)
  })
  running = run({ ...options, handler: ['sensor'], isolated: 'on' })
  expect(await atStart).toEqual(['akri.sh/lab', 'akri.sh/lab-8120fe'])
})

describe('a problem of the node', () => {
  type Environment = Awaited<ReturnType<typeof environmentWithCheckpoint>>

  const refusing = (code: number) => (on: Environment) => {
    on.server.refusal = ({ method, path: of }) =>
      method === 'POST' && of.endsWith('/instances')
        ? { status: code, message: 'not today' }
        : undefined
  }
  /** @param prepare makes the temporary file of the checkpoint, which has to be written again */
  const spoiling = (prepare: (file: string) => Promise<unknown>) => async (on: Environment) => {
    // A write can be under way.
    await eventually(() => prepare(temporaryOf(on.checkpoint)))
    on.server.remove(LAB)
  }

  /** A kubelet that refuses each plugin, on the socket where the agent looks for one. */
  async function refusePlugins(on: Environment) {
    await on.kubelet.close()
    await mkdir(on.options.pluginDirectory, { recursive: true })
    const kubelet = new Server()
    kubelet.addService(RegistrationService, {
      register: (_call: unknown, done: sendUnaryData<object>) =>
        done({ code: status.INVALID_ARGUMENT, details: 'not today' }),
    })
    await new Promise<void>((resolve, reject) =>
      kubelet.bindAsync(
        `unix:${on.options.pluginDirectory}/kubelet.sock`,
        ServerCredentials.createInsecure(),
        (error) => (error ? reject(error) : resolve()),
      ),
    )
    onTestFinished(() => kubelet.forceShutdown())
  }

  type Cause = (on: Environment) => unknown

  it.each<[what: string, problem: string, text: RegExp, at: 'start' | 'ready', cause: Cause]>([
    ['a busy API server', 'ApiRequestFailed', /\b429\b.*not today/, 'start', refusing(429)],
    ['an API server that fails', 'ApiRequestFailed', /500\b.*not today/, 'start', refusing(500)],
    ['a missing right', 'ApiRequestFailed', /instances: 403\b.*not/, 'start', refusing(403)],
    [
      'a kubelet that refuses',
      'RegistrationFailed',
      /_ARGUMENT: not today/,
      'start',
      refusePlugins,
    ],
    [
      'a full disk',
      'DiskFull',
      /a disk of the node is full: .*ENOSPC/,
      'ready',
      spoiling((file) => symlink('/dev/full', file)),
    ],
    [
      'a state that cannot be written',
      'StateNotWritten',
      /EISDIR/,
      'ready',
      spoiling((file) => mkdir(file)),
    ],
  ])('is one Event, in a metric and in the log: %s', async (_what, problem, text, at, cause) => {
    const on = await environmentWithCheckpoint()
    const { server, options } = on
    const pod = '/api/v1/namespaces/akri/pods/akri-agent-x'
    const { metadata } = server.put(pod, { spec: { nodeName: options.node } })
    if (at === 'start') await cause(on)
    const lines: string[] = []
    const note = (fields: object, message: string) =>
      void lines.push(`${message} ${String('err' in fields && fields.err)}`)
    const log: Logger = { ...silentLogger, warn: note, error: note, child: () => log }
    running = runInContext({ log, signal: stop.signal }, (context) =>
      runAgent(
        { ...options, pod: 'akri-agent-x', podNamespace: 'akri' },
        { packagesFrom: directory, ...context },
      ),
    )
    const ask = (at: string) => fetch(`http://127.0.0.1:${options.metricsPort}/${at}`)
    await eventually(async () => expect((await ask('readyz')).status).toBe(200))
    if (at === 'ready') await cause(on)
    await eventually(async () =>
      expect(await (await ask('metrics')).text()).toMatch(
        new RegExp(`^akri_node_problems_total\\{problem="${problem}"\\} [1-9]`, 'm'),
      ),
    )
    const events = () =>
      [...server.objects]
        .filter(([of]) => of.startsWith('/api/v1/namespaces/akri/events/'))
        .map(([, event]) => event)
    const said = { reason: problem, message: expect.stringMatching(text) }
    server.refusal = () => undefined
    await eventually(() =>
      expect(events()).toEqual([
        expect.objectContaining({
          ...said,
          involvedObject: expect.objectContaining({ uid: metadata.uid }),
        }),
      ]),
    )
    expect(lines.join('\n')).toMatch(/not today|ENOSPC|EISDIR/)
  })
})
