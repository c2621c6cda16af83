import { createHash } from 'node:crypto'
import * as fs from 'node:fs/promises'
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { inspect } from 'node:util'
import { SimulatedKubelet } from '@akrijs/kube/kubelet'
import { answerWith, FakeApiServer } from '@akrijs/kube/testing'
import { RegistrationService } from '@akrijs/proto/device-plugin'
import {
  type Clock,
  type Logger,
  type LogMethod,
  silentLogger,
  systemClock,
  temporaryOf,
} from '@akrijs/runtime'
import { runInContext } from '@akrijs/runtime/program'
import { ManualClock } from '@akrijs/runtime/testing'
import type { Device } from '@akrijs/sdk/handler'
import { type sendUnaryData, status } from '@grpc/grpc-js'
import { afterEach, beforeEach, expect, it, onTestFinished, vi } from 'vitest'
import { eventually, passing } from '../../../test/support/eventually.js'
import { freePort } from '../../../test/support/free-port.js'
import { temporaryDirectory } from '../../../test/support/temporary-directory.js'
import { grpcServer } from '../testing/grpc-server.js'
import { programOptions } from '../testing/program-options.js'
import { serveHandler } from '../testing/served-handler.js'
import { leaveSocket } from '../testing/sockets.js'
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

const LAB = '/apis/akri.sh/v0/namespaces/default/configurations/lab'
const INSTANCE = '/apis/akri.sh/v0/namespaces/default/instances/lab-8120fe'

let directory: string
let server: FakeApiServer
let kubelet: SimulatedKubelet
let handlers: string
let stop: AbortController
let running: Promise<void>
let clock: ManualClock
/** The options that name this environment. */
let place: string[]
let metricsPort: number

beforeEach(async () => {
  directory = await temporaryDirectory()
  handlers = path.join(directory, 'h')
  await mkdir(handlers, { mode: 0o700 })
  server = new FakeApiServer(systemClock)
  server.put('/api/v1/nodes/node-a', {})
  kubelet = await SimulatedKubelet.start({ directory: path.join(directory, 'k') })
  stop = new AbortController()
  clock = new ManualClock()
  running = Promise.resolve()
  metricsPort = await freePort()
  const url = (await server.listen()).href
  const kubeconfig = path.join(directory, 'kubeconfig')
  const config = {
    ...{ apiVersion: 'v1', kind: 'Config', 'current-context': 'x' },
    clusters: [{ name: 'c', cluster: { server: url, 'insecure-skip-tls-verify': true } }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    users: [{ name: 'u', user: {} }],
  }
  await writeFile(kubeconfig, JSON.stringify(config))
  place = [
    ['--kubeconfig', kubeconfig],
    ['--metrics-port', String(metricsPort)],
    ['--handlers-directory', handlers],
    ['--state-directory', path.join(directory, 's')],
    ['--plugin-directory', kubelet.pluginDirectory],
    ['--pod-resources-socket', kubelet.podResourcesSocket],
  ].flat()
})

afterEach(async () => {
  stop.abort()
  await running
  spawning.before = () => {}
  await kubelet.close()
  await server.close()
})

function run(
  args: readonly string[] = [],
  { of = clock, log = silentLogger }: { of?: Clock; log?: Logger } = {},
): Promise<void> {
  return runInContext({ log, signal: stop.signal }, (context) =>
    runAgent(programOptions(...place, ...args), { packagesFrom: directory, clock: of, ...context }),
  )
}

/** Waits while the time of the agent passes. */
const later = (look: () => unknown) => passing(clock, look)

async function ask(at: string): Promise<[status: number, text: string]> {
  const answer = await fetch(`http://127.0.0.1:${metricsPort}${at}`)
  return [answer.status, await answer.text()]
}

/** Makes a Configuration of the handler `sensor`. */
function configure(discoveryProperties: readonly object[] = []) {
  const discoveryHandler = { name: 'sensor', discoveryDetails: '', discoveryProperties }
  const spec = { discoveryHandler, capacity: 1 }
  return server.put(LAB, { apiVersion: 'akri.sh/v0', kind: 'Configuration', spec })
}

/** The same, and the checkpoint of an agent with a device. @returns its file */
async function configureWithCheckpoint(): Promise<string> {
  const { uid } = configure().metadata
  const lists = [{ endpoint: 'sensor', shared: true, devices: [{ id: 'foo0' }] }]
  const discovery = { 'default/lab': { uid, lists } }
  await mkdir(path.join(directory, 's'))
  const checkpoint = path.join(directory, 's/checkpoint.json')
  await writeFile(checkpoint, JSON.stringify({ version: 1, node: 'node-a', discovery }))
  return checkpoint
}

/** Serves the handler `sensor`, which lists what the function returns. */
const serveSensor = (list: (token: string | undefined) => Device[]) =>
  serveHandler('sensor', handlers, ({ properties }) => list(properties.text('token')))

it('A23 the agent answers probes, has metrics, and leaves no socket and no port', async () => {
  server.answer = answerWith(503, '')
  running = run()
  // The agent waits for an unreachable cluster: its probes do not lead to a restart.
  const waits = [503, expect.stringContaining('waiting for the API server')]
  await eventually(async () => expect(await ask('/readyz')).toEqual(waits))
  expect((await ask('/healthz'))[0]).toBe(200)
  server.answer = undefined
  await later(async () => expect((await ask('/readyz'))[0]).toBe(200))
  expect((await ask('/healthz'))[0]).toBe(200)
  expect((await ask('/metrics'))[1]).toMatch(
    /^akri_api_requests_total\{method="GET",status="200"\} [1-9]/m,
  )
  expect(await readdir(handlers)).toEqual(['agent-registration.sock'])
  await rm(path.join(handlers, 'agent-registration.sock'))
  const lost = [503, `${handlers}/agent-registration.sock does not answer\n`]
  await eventually(async () => expect(await ask('/healthz')).toEqual(lost))

  stop.abort()
  await running
  await expect(ask('/healthz')).rejects.toThrow()
  expect(await readdir(handlers)).toEqual([])
  expect(await readdir(kubelet.pluginDirectory)).toEqual(['kubelet.sock'])
})

it('a start that fails after the agent was started leaves no socket', async () => {
  // No SDK can be resolved from the directory: the handlers cannot be started.
  const ended = run(['--isolated']).catch(String)
  await later(() => expect(Promise.race([ended, undefined])).resolves.toBeDefined())
  expect(await ended).toContain('@akrijs/sdk is not installed')
  expect(await readdir(handlers)).toEqual([])
})

/** The texts of the files below a directory, by name. */
async function filesBelow(place: string): Promise<Record<string, string>> {
  const entries = await readdir(place, { recursive: true, withFileTypes: true })
  const files = entries.filter((each) => each.isFile())
  const read = async ({ parentPath, name }: (typeof files)[number]) =>
    // A file that a rename has just replaced is found by its new name.
    [name, await readFile(path.join(parentPath, name), 'utf8').catch(() => '')] as const
  return Object.fromEntries(await Promise.all(files.map(read)))
}

it('A7 a Secret reaches its handler after each change, and no log, file or object', async () => {
  const SECRET = '/api/v1/namespaces/default/secrets/lab'
  const values = ['s3cret-word', 'an0ther-word']
  const digestOf = (value: string) => createHash('sha256').update(value).digest('hex')
  const from = { valueFrom: { secretKeyRef: { name: 'lab', key: 'token', optional: true } } }
  configure([{ name: 'token', ...from }])
  const lines: string[] = []
  const write: LogMethod = (fields, message) =>
    void lines.push(inspect({ fields, message }, { depth: Number.POSITIVE_INFINITY }))
  const log: Logger = { debug: write, info: write, warn: write, error: write, child: () => log }
  const begin = () => {
    stop = new AbortController()
    running = run([], { of: systemClock, log })
  }
  const shows = (digest: string) =>
    eventually(async () => {
      const properties = { brokerProperties: { DIGEST: digest } }
      expect(server.objects.get(INSTANCE)?.spec).toMatchObject(properties)
      const { 'checkpoint.json': checkpoint } = await filesBelow(path.join(directory, 's'))
      expect(checkpoint).toContain(digest)
    })
  const expectNowhere = async () => {
    const { [SECRET]: _secret, ...objects } = Object.fromEntries(server.objects)
    const kept = JSON.stringify([objects, server.requests])
    const places = { ...(await filesBelow(directory)), kept, log: lines.join('\n') }
    for (const [place, text] of Object.entries(places))
      for (const value of values)
        for (const encoding of ['utf8', 'base64', 'hex'] as const)
          expect(text.includes(Buffer.from(value).toString(encoding)), place).toBe(false)
  }
  begin()
  await serveSensor((token) => [
    { id: 'foo0', properties: { DIGEST: token === undefined ? 'none' : digestOf(token) } },
  ])
  await shows('none')
  for (const value of values) {
    server.put(SECRET, { data: { token: Buffer.from(value).toString('base64') } })
    await shows(digestOf(value))
    await expectNowhere()
  }
  // A restarted agent must not log the Secret either.
  stop.abort()
  await running
  begin()
  server.remove(SECRET)
  await shows('none')
  expect(lines.join('\n')).toMatch(/agent started.*agent started/s)
  await expectNowhere()
})

it('an agent offers no more new names of resources than the Node has room for', async () => {
  configure()
  const old = Array.from({ length: 30 }, (_, index) => [`akri.sh/old-${index}`, '0'])
  server.put('/api/v1/nodes/node-a', { status: { capacity: Object.fromEntries(old) } })
  // For the Configuration, and for two of four devices.
  running = run(['--max-resource-names', String(old.length + 3)], { of: systemClock })
  await serveSensor(() => ['foo0', 'foo1', 'foo2', 'foo3'].map((id) => ({ id })))
  const report = () => JSON.stringify(server.objects.get('/apis/akri.sh/v0/nodereports/node-a'))
  await eventually(() => expect(report()).toContain('"reason":"TooManyResources"'))
  expect(kubelet.resources).toHaveLength(3)
  expect(kubelet.resources).toContain('akri.sh/lab')
})

it('an agent ends in time while the API server does not answer', async () => {
  await configureWithCheckpoint()
  let isWriting = false
  server.before = ({ method, path: of }) => {
    if (method !== 'POST' || !of.endsWith('/instances')) return undefined
    isWriting = true
    return new Promise(() => {})
  }
  running = run()
  await later(() => expect(isWriting).toBe(true))
  stop.abort()
  // The kubelet kills the agent after 20 s.
  await clock.advance('19s')
  await running
  expect(kubelet.resources).toContain('akri.sh/lab-8120fe')
})

it('an agent offers on and refuses claims while the API server does not answer', async () => {
  configure()
  running = run()
  await serveSensor(() => [{ id: 'foo0' }])
  const resource = 'akri.sh/lab-8120fe'
  const offers = () => expect(kubelet.resource(resource).allocatable).toBe(1)
  await later(offers)
  server.before = () => new Promise(() => {})
  const containers = [{ name: 'c', resources: { [resource]: 1 } }]
  const pod = { uid: 'p', name: 'p', namespace: 'default', containers }
  const refused = kubelet.admit(pod).catch(String)
  await later(() => expect(Promise.race([refused, undefined])).resolves.toBeDefined())
  expect(await refused).toMatch(/instances\/lab-8120fe: no answer within/)
  offers()
})

it('an agent that lost its kubelet is not ready, and ends', async () => {
  const plugins = path.join(directory, 'p')
  await mkdir(plugins)
  // As a container sees a directory that was replaced on its node.
  const mounted = await fs.open(plugins)
  onTestFinished(() => mounted.close())
  const ended = run(['--plugin-directory', `/proc/self/fd/${mounted.fd}`]).catch(
    (error: unknown) => error,
  )
  running = ended.then(() => {})
  await later(async () => expect((await ask('/readyz'))[0]).toBe(200))
  // The socket of a kubelet that was killed.
  await leaveSocket(path.join(plugins, 'kubelet.sock'))
  await later(async () => expect((await ask('/readyz'))[0]).toBe(503))
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
  await configureWithCheckpoint()
  const akri = { contract: 1, handlers: [{ name: 'sensor' }] }
  await install('sensor', { main: 'dist/main.js', akri }, 'dist/main.js', '')
  // A program that serves no handler, and ends with its standard input.
  await install('@akrijs/sdk', {}, 'dist/akri-handler.js', 'process.stdin.resume()')
  const atStart = new Promise<string[]>((resolve) => {
    spawning.before = () => resolve(kubelet.resources)
  })
  running = run(['--handler', 'sensor', '--isolated'])
  expect(await atStart).toEqual(['akri.sh/lab', 'akri.sh/lab-8120fe'])
})

const refusing = (code: number) => () => {
  server.refusal = ({ method, path: of }) =>
    method === 'POST' && of.endsWith('/instances')
      ? { status: code, message: 'not today' }
      : undefined
}

/** The checkpoint has to be written again, and its temporary file is on a full disk. */
async function fillDisk(checkpoint: string) {
  // A write can be under way.
  await eventually(() => fs.symlink('/dev/full', temporaryOf(checkpoint)))
  server.remove(LAB)
}

/** A kubelet that refuses each plugin, on the socket where the agent looks for one. */
async function refusePlugins() {
  await kubelet.close()
  const refused = { code: status.INVALID_ARGUMENT, details: 'not today' }
  const socket = path.join(kubelet.pluginDirectory, 'kubelet.sock')
  const refusing = await grpcServer(socket, RegistrationService, {
    register: (_call: unknown, done: sendUnaryData<object>) => done(refused),
  })
  onTestFinished(() => refusing.forceShutdown())
}

type Cause = (checkpoint: string) => unknown

it.each<[what: string, problem: string, text: RegExp, at: 'start' | 'ready', cause: Cause]>([
  ['a busy API server', 'ApiRequestFailed', /\b429\b.*not today/, 'start', refusing(429)],
  ['an API server that fails', 'ApiRequestFailed', /500\b.*not today/, 'start', refusing(500)],
  ['a missing right', 'ApiRequestFailed', /instances: 403\b.*not/, 'start', refusing(403)],
  ['a kubelet that refuses', 'RegistrationFailed', /_ARGUMENT: not today/, 'start', refusePlugins],
  ['a full disk', 'DiskFull', /a disk of the node is full: .*ENOSPC/, 'ready', fillDisk],
])('a problem is one Event, in a metric and in the log: %s', async (...row) => {
  const [, problem, text, at, cause] = row
  const checkpoint = await configureWithCheckpoint()
  const pod = '/api/v1/namespaces/akri/pods/akri-agent-x'
  const { metadata } = server.put(pod, { spec: { nodeName: 'node-a' } })
  if (at === 'start') await cause(checkpoint)
  const lines: string[] = []
  const note = (fields: object, message: string) =>
    void lines.push(`${message} ${String('err' in fields && fields.err)}`)
  const log: Logger = { ...silentLogger, warn: note, error: note, child: () => log }
  const args = ['--pod', 'akri-agent-x', '--pod-namespace', 'akri']
  running = run(args, { of: systemClock, log })
  await eventually(async () => expect((await ask('/readyz'))[0]).toBe(200))
  if (at === 'ready') await cause(checkpoint)
  const line = new RegExp(`^akri_node_problems_total\\{problem="${problem}"\\} [1-9]`, 'm')
  await eventually(async () => expect((await ask('/metrics'))[1]).toMatch(line))
  server.refusal = () => undefined
  const events = () =>
    [...server.objects].flatMap(([of, event]) =>
      of.startsWith('/api/v1/namespaces/akri/events/') ? event : [],
    )
  const involvedObject = expect.objectContaining({ kind: 'Pod', uid: metadata.uid })
  const event = { reason: problem, message: expect.stringMatching(text), involvedObject }
  await eventually(() => expect(events()).toEqual([expect.objectContaining(event)]))
  expect(lines.join('\n')).toMatch(/not today|ENOSPC/)
})
