import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { RegistrationClient } from '@akrijs/proto/discovery'
import { credentials, Server, ServerCredentials, type ServerWritableStream } from '@grpc/grpc-js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { freePort } from './support/free-port.js'
import { NodeAgent } from './support/node-agent.js'
import { missingHere, NODE_1, unlessHere } from './support/nodes.js'
import { echoYaml, eventually, World } from './support/world.js'

/** What the kubelet waits for the answer of a probe (`timeoutSeconds` of the manifests). */
const PROBE_MS = 5000
/** The memory limit of the manifests, in megabytes. */
const LIMIT_MB = 320
/** The flags of the manifests. */
const NODE_OPTIONS = '--max-semi-space-size=2 --max-old-space-size=224'

/** How many devices the handler lists, and how many of them the agent serves. */
const FLOOD = 100_000
const MOST = 100

describe.skipIf(missingHere() !== undefined)(`a flood of devices${unlessHere}`, () => {
  let world: World
  let agent: NodeAgent
  let port: number
  let handler: FloodHandler | undefined
  let probing: Probing | undefined

  beforeAll(async () => {
    world = await World.open()
    port = await freePort()
    agent = await NodeAgent.create(NODE_1, {
      NODE_OPTIONS,
      METRICS_PORT: String(port),
      AKRI_MAX_CONFIGURATION_DEVICES: String(MOST),
    })
    await agent.start()
    await eventually(async () =>
      expect((await fetch(`http://127.0.0.1:${port}/readyz`)).status).toBe(200),
    )
  })

  afterAll(async () => {
    await probing?.end()
    await handler?.close()
    await world?.clear([NODE_1])
    await agent?.dispose()
    await world?.close()
  })

  it('leaves the Node Ready, fits into the agent, and displaces no served device', async () => {
    const flooder = await FloodHandler.start(agent, 'flooder')
    handler = flooder
    flooder.list(['real-camera'])
    const discoveryHandler = { name: 'flooder' }
    await world.apply(echoYaml('lan', [], 1, { discoveryHandler }))
    await eventually(async () => expect(await world.instances()).toHaveLength(1))
    probing = new Probing(world, agent, port)
    flooder.list([...Array.from({ length: FLOOD }, (_, index) => `0-${index}`), 'real-camera'])
    await eventually(async () =>
      expect(await world.reportedStatus('lan', NODE_1)).toMatchObject({
        devices: MOST,
        leftOut: FLOOD + 1 - MOST,
      }),
    )
    await eventually(async () => expect(await world.allocatable(NODE_1, 'akri.sh/lan')).toBe(MOST))
    expect(await world.instances()).toHaveLength(MOST)
    expect(await world.reportedCondition('lan', 'Ready')).toMatchObject({
      reason: 'TooManyDevices',
      message: expect.stringContaining(
        `${FLOOD + 1 - MOST} devices are left out and ${MOST} are served`,
      ),
    })
    await probing.end()
    expect(await memoryOf(agent)).toBeLessThan(LIMIT_MB)
    expect(probing.problems).toEqual([])
    const ids = (await world.instances()).map(({ spec }) => spec.brokerProperties.ID)
    expect(ids).toContain('real-camera')
  })
})

/**
 * Asks for the health of an agent and its Node, again and again. An answer may cost the agent as
 * much CPU time as a probe may take: a busy machine takes longer.
 */
class Probing {
  /** Expensive or bad answers, and states of the Node. */
  readonly problems: string[] = []
  readonly #stop = new AbortController()
  readonly #world: World
  readonly #agent: NodeAgent
  readonly #port: number
  readonly #running: Promise<void>

  constructor(world: World, agent: NodeAgent, port: number) {
    this.#world = world
    this.#agent = agent
    this.#port = port
    this.#running = this.#run()
  }

  async end(): Promise<void> {
    this.#stop.abort()
    await this.#running
  }

  async #run(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      const before = await processorMsOf(this.#agent)
      const { status } = await fetch(`http://127.0.0.1:${this.#port}/healthz`)
      const ms = (await processorMsOf(this.#agent)) - before
      if (status !== 200 || ms > PROBE_MS)
        this.problems.push(`answered ${status} after ${ms} ms of CPU time`)
      if (!(await this.#world.isReady(NODE_1))) this.problems.push('the Node is not Ready')
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
  }
}

/** The CPU time of an agent so far, in milliseconds. */
async function processorMsOf({ pid }: NodeAgent): Promise<number> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8')
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  // In hundredths of a second: proc(5), utime and stime.
  return (Number(fields[11]) + Number(fields[12])) * 10
}

/** The most memory that an agent had, in megabytes. */
async function memoryOf({ pid }: NodeAgent): Promise<number> {
  const text = await readFile(`/proc/${pid}/status`, 'utf8')
  return Math.round(Number(/VmHWM:\s+(\d+)/.exec(text)?.[1]) / 1024)
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
