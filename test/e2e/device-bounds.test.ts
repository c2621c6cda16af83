import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import http from 'node:http'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { RegistrationClient } from '@akrijs/proto/discovery'
import { credentials, Server, ServerCredentials, type ServerWritableStream } from '@grpc/grpc-js'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { freePort } from './support/free-port.js'
import { NodeAgent } from './support/node-agent.js'
import { missingHere, NODE_1, unlessHere } from './support/nodes.js'
import { echoYaml, eventually, World } from './support/world.js'

const run = promisify(execFile)

/** What the kubelet waits for the answer of a probe (`timeoutSeconds` of the manifests). */
const PROBE_MS = 5000
/** The memory limit of the manifests, in megabytes. */
const LIMIT_MB = 320
/** The flags of the manifests. */
const NODE_OPTIONS = '--max-semi-space-size=2 --max-old-space-size=224'

const named = (prefix: string, count: number) =>
  Array.from({ length: count }, (_, index) => `${prefix}-${index}`)

/** A thousand device plugins take a kubelet some time. */
const within = <T>(look: () => Promise<T>) => vi.waitFor(look, { timeout: 200_000, interval: 250 })

let world: World
let agent: NodeAgent | undefined
let port: number
let probing: Probing | undefined

beforeAll(async () => {
  if (missingHere() === undefined) world = await World.open()
})

afterEach(async () => {
  await probing?.end()
  await world?.clear()
  await agent?.dispose()
  agent = undefined
})

afterAll(async () => {
  if (missingHere() !== undefined) return
  await removeOldNames()
  await world.close()
})

async function startAgent(env: Readonly<Record<string, string>> = {}): Promise<NodeAgent> {
  port = await freePort()
  agent = await NodeAgent.create(NODE_1, { NODE_OPTIONS, METRICS_PORT: String(port), ...env })
  await agent.start()
  await eventually(() => get(port, '/readyz'))
  return agent
}

const statusOf = (name: string) => world.reportedStatus(name, NODE_1)
const readyOf = (name: string) => world.reportedCondition(name, 'Ready')

describe.skipIf(missingHere() !== undefined)(`a flood of devices${unlessHere}`, () => {
  it('of 2,500 devices in a Configuration leaves the Node Ready, and serves 1,000', async () => {
    await startAgent()
    probing = new Probing()
    await world.apply(echoYaml('flood', named('device', 2500), 1))
    await within(async () => expect(await world.instances()).toHaveLength(1000))
    await within(async () => expect(await world.allocatable(NODE_1, 'akri.sh/flood')).toBe(1000))
    expect(await statusOf('flood')).toMatchObject({ devices: 1000, leftOut: 1500 })
    expect(await readyOf('flood')).toMatchObject({
      reason: 'TooManyDevices',
      message: expect.stringContaining('1500 devices are left out and 1000 are served'),
    })
    await probing.end()
    expect(probing.problems).toEqual([])
  })

  it('that is deleted leaves no Instance, and none is created after that', async () => {
    const { output } = await startAgent().then((started) => ({ output: () => started.output() }))
    const created = async () => (await output()).split('"instance created"').length - 1
    await world.apply(echoYaml('brief', named('brief', 500), 1))
    await within(async () => expect((await world.instances()).length).toBeGreaterThan(20))
    await world.remove('Configuration', 'brief')
    // Requests that were under way create some more, which the garbage collector removes.
    let after = await created()
    await vi.waitFor(
      async () => {
        const before = after
        after = await created()
        expect([after, await world.instances()]).toEqual([before, []])
      },
      { timeout: 200_000, interval: 3000 },
    )
    expect(after).toBeLessThan(500)
    await world.apply(echoYaml('next', ['next'], 1))
    await within(async () => expect(await world.instances()).toHaveLength(1))
    await eventually(async () => expect(await created()).toBe(after + 1))
  })

  it('of 100,000 devices fits into the agent, and displaces no served device', async () => {
    const started = await startAgent({ AKRI_MAX_CONFIGURATION_DEVICES: '200' })
    const handler = await FloodHandler.start(started, 'flooder')
    try {
      handler.list(['real-camera'])
      await world.apply(configurationYaml('lan', 'flooder'))
      await within(async () => expect(await world.instances()).toHaveLength(1))
      probing = new Probing()
      const begun = performance.now()
      handler.list([...named('0', 100_000), 'real-camera'])
      await within(async () =>
        expect(await statusOf('lan')).toMatchObject({ devices: 200, leftOut: 99_801 }),
      )
      await within(async () => expect(await world.instances()).toHaveLength(200))
      const took = Math.round(performance.now() - begun)
      await probing.end()
      const memory = await memoryOf(started)
      console.info(`100,000 devices: ${took} ms, peak ${memory} MB`)
      expect(memory).toBeLessThan(LIMIT_MB)
      expect(probing.problems).toEqual([])
      const ids = (await world.instances()).map(({ spec }) => spec.brokerProperties.ID)
      expect(ids).toContain('real-camera')
    } finally {
      await handler.close()
    }
  })
})

describe.skipIf(missingHere() !== undefined)(`new names of resources${unlessHere}`, () => {
  const nodeStatus = async () => {
    const path = `/api/v1/nodes/${NODE_1}`
    const { status } = (await world.client.request({ method: 'GET', path })) as {
      status: { capacity: Record<string, string> }
    }
    return status
  }
  const names = async () =>
    Object.keys((await nodeStatus()).capacity).filter((name) => name.startsWith('akri.sh/')).length

  it('stop at the bound of the Node, and go on once old names are removed', async ({ skip }) => {
    if (!(await removeOldNames())) skip('needs kubectl 1.24 for --subresource')
    // The kubelet writes all names at once: with the last name, the Node has the earlier ones too.
    const marking = await startAgent()
    await world.apply(echoYaml('marker', ['marker'], 1))
    await within(async () => expect(await world.allocatable(NODE_1, 'akri.sh/marker')).toBe(1))
    await world.clear([NODE_1])
    await marking.dispose()
    const capacity = Object.fromEntries(named('akri.sh/old', 30).map((name) => [name, '0']))
    await world.client.request({
      method: 'PATCH',
      path: `/api/v1/nodes/${NODE_1}/status`,
      patch: 'merge',
      body: { status: { capacity } },
    })
    const most = (await names()) + 12
    await startAgent({ AKRI_MAX_RESOURCE_NAMES: String(most) })
    const idsServed = async () =>
      (await world.instances()).map(({ spec }) => spec.brokerProperties.DEBUG_ECHO_DESCRIPTION)

    await world.apply(echoYaml('churn', named('first', 8), 1))
    await within(async () => expect(await world.allocatable(NODE_1, 'akri.sh/churn')).toBe(8))
    // The same handler with other ids: the Node keeps the names of the first.
    await world.apply(echoYaml('churn', named('second', 8), 1))
    await within(async () => expect((await readyOf('churn'))?.reason).toBe('TooManyResources'))
    const second = await within(async () => {
      const ids = await idsServed()
      expect(ids.join()).not.toContain('first')
      return ids
    })
    expect(second.length).toBeLessThan(8)
    expect(await names()).toBeLessThanOrEqual(most)
    expect(await removeOldNames()).toBe(true)
    // The agent reads the Node once in a minute.
    await within(async () => expect(await idsServed()).toHaveLength(8))
    await within(async () => expect(await world.allocatable(NODE_1, 'akri.sh/churn')).toBe(8))
  })
})

/**
 * Runs the commands of the docs.
 * @returns false if kubectl is too old for them
 */
async function removeOldNames(): Promise<boolean> {
  const help = await run('kubectl', ['patch', '--help'])
  if (!help.stdout.includes('--subresource')) return false
  const page = await readFile(path.join(import.meta.dirname, '../../docs/operators.md'), 'utf8')
  const script = /```sh\nNODE=node-1\n([^`]+)```/.exec(page)?.[1] ?? expect.fail('no commands')
  const directory = await mkdtemp(path.join(os.tmpdir(), 'akri-names-'))
  try {
    await run('bash', ['-c', script], { cwd: directory, env: { ...process.env, NODE: NODE_1 } })
    return true
  } catch (error) {
    // There is nothing to remove.
    if ((await readFile(path.join(directory, 'old-names'), 'utf8')) === '') return true
    throw error
  } finally {
    await rm(directory, { recursive: true })
  }
}

/** Asks for the health of an agent and its Node, again and again. */
class Probing {
  /** Slow or bad answers, and states of the Node. */
  readonly problems: string[] = []
  readonly #stop = new AbortController()
  readonly #running: Promise<void>

  constructor() {
    this.#running = this.#run()
  }

  async end(): Promise<void> {
    this.#stop.abort()
    await this.#running
  }

  async #run(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      await get(port, '/healthz').catch((error: unknown) => this.problems.push(String(error)))
      if (!(await world.isReady(NODE_1))) this.problems.push('the Node is not Ready')
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
  }
}

function get(port: number, url: string): Promise<void> {
  const begun = performance.now()
  return new Promise((resolve, reject) => {
    const request = http.get({ port, path: url, timeout: PROBE_MS }, (response) => {
      response.resume()
      response.once('end', () => {
        const ms = performance.now() - begun
        if (response.statusCode === 200 && ms < PROBE_MS) resolve()
        else reject(new Error(`${url} answered ${response.statusCode} after ${ms} ms`))
      })
    })
    request.once('timeout', () => request.destroy(new Error(`${url} did not answer in time`)))
    request.once('error', reject)
  })
}

/** The most memory that an agent had, in megabytes. */
async function memoryOf({ pid }: NodeAgent): Promise<number> {
  const text = await readFile(`/proc/${pid}/status`, 'utf8')
  return Math.round(Number(/VmHWM:\s+(\d+)/.exec(text)?.[1]) / 1024)
}

function configurationYaml(name: string, handler: string): string {
  return JSON.stringify({
    apiVersion: 'akri.sh/v0',
    kind: 'Configuration',
    metadata: { name },
    spec: { discoveryHandler: { name: handler }, capacity: 1 },
  })
}

/** A handler of another implementation, which lists any number of devices. */
class FloodHandler {
  readonly #server = new Server()
  readonly #calls = new Set<ServerWritableStream<Buffer, Buffer>>()
  #last = Buffer.alloc(0)

  static async start(agent: NodeAgent, name: string): Promise<FloodHandler> {
    const handler = new FloodHandler()
    const bytes = (value: Buffer) => value
    const method = {
      path: '/v0.DiscoveryHandler/Discover',
      requestStream: false,
      responseStream: true,
      requestSerialize: bytes,
      requestDeserialize: bytes,
      responseSerialize: bytes,
      responseDeserialize: bytes,
    } as const
    handler.#server.addService(
      { discover: method },
      {
        discover: (call: ServerWritableStream<Buffer, Buffer>) => {
          handler.#calls.add(call)
          call.write(handler.#last)
        },
      },
    )
    const directory = path.join(agent.directory, 'h')
    const socket = path.join(directory, `${name}.sock`)
    await new Promise<void>((resolve, reject) =>
      handler.#server.bindAsync(`unix:${socket}`, ServerCredentials.createInsecure(), (error) =>
        error === null ? resolve() : reject(error),
      ),
    )
    const client = new RegistrationClient(
      `unix:${path.join(directory, 'agent-registration.sock')}`,
      credentials.createInsecure(),
    )
    await new Promise<void>((resolve, reject) =>
      client.registerDiscoveryHandler(
        { name, endpoint: socket, endpointType: 0, shared: true },
        (error) => (error === null ? resolve() : reject(error)),
      ),
    )
    client.close()
    return handler
  }

  list(ids: readonly string[]): void {
    this.#last = Buffer.concat(ids.map(deviceOf))
    for (const call of this.#calls) call.write(this.#last)
  }

  async close(): Promise<void> {
    this.#server.forceShutdown()
  }
}

/** A device with the property `ID`, as the first field of a DiscoverResponse. */
function deviceOf(id: string): Buffer {
  const property = Buffer.concat([field(1, Buffer.from('ID')), field(2, Buffer.from(id))])
  return field(1, Buffer.concat([field(1, Buffer.from(id)), field(2, property)]))
}

/** A field of a message, with less than 128 bytes. */
function field(number: number, content: Buffer): Buffer {
  return Buffer.concat([Buffer.from([(number << 3) | 2, content.length]), content])
}
