import { readFile } from 'node:fs/promises'
import path from 'node:path'
import type { ConfigurationName } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import {
  type DiscoverRequest,
  type DiscoverResponse,
  DiscoveryHandlerService,
  RegistrationClient,
} from '@akrijs/proto/discovery'
import { silentLogger, systemClock } from '@akrijs/runtime'
import { credentials, Server, ServerCredentials, type ServerWritableStream } from '@grpc/grpc-js'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { NodeEnvironment } from '../testing/node-environment.js'
import { manifest } from '../testing/objects.js'
import { type Agent, startAgent } from './agent.js'

const NODE = 'node-a' as NodeName
const CONFIGURATION = 'lab' as ConfigurationName

let home: NodeEnvironment
let agent: Agent | undefined
let handler: Server

beforeEach(async () => {
  home = await NodeEnvironment.open()
  handler = new Server()
})

afterEach(async () => {
  handler.forceShutdown()
  await agent?.close()
  agent = undefined
  await home.close()
})

const checkpointFile = () => path.join(home.directory, 'checkpoint.json')

async function start(): Promise<void> {
  agent = await startAgent({
    cluster: home.cluster,
    kubelet: home.sockets,
    clock: systemClock,
    log: silentLogger,
    node: NODE,
    handlersDirectory: home.directory,
    checkpointFile: checkpointFile(),
    embedded: [],
  })
}

/** Serves a handler as those of the existing system: it registers once, and sends one list. */
async function serveOnce(): Promise<string> {
  const socket = path.join(home.directory, 'sensor.sock')
  handler.addService(DiscoveryHandlerService, {
    discover(call: ServerWritableStream<DiscoverRequest, DiscoverResponse>) {
      call.write({
        devices: [{ id: 'foo0', properties: {}, mounts: [], deviceSpecs: [] }],
        reports: [],
      })
    },
  })
  await new Promise<void>((resolve, reject) => {
    handler.bindAsync(`unix:${socket}`, ServerCredentials.createInsecure(), (error) =>
      error ? reject(error) : resolve(),
    )
  })
  const address = `unix:${home.directory}/agent-registration.sock`
  const client = new RegistrationClient(address, credentials.createInsecure())
  const registration = { name: 'sensor', endpoint: socket, endpointType: 0, shared: true } as const
  await new Promise<void>((resolve, reject) => {
    client.registerDiscoveryHandler(registration, (error) => (error ? reject(error) : resolve()))
  })
  client.close()
  return socket
}

it('A4 a handler that registers once is asked by the next agent, also if it was idle', async () => {
  await start()
  const socket = await serveOnce()
  // Also an agent that is killed leaves it.
  await eventually(async () =>
    expect(JSON.parse(await readFile(checkpointFile(), 'utf8')).handlers).toEqual([
      { name: 'sensor', socket, shared: true, owner: `user ${process.getuid?.()}` },
    ]),
  )
  await agent?.close()
  await start()
  const discoveryHandler = { name: 'sensor', discoveryDetails: '', discoveryProperties: [] }
  const configuration = { ...manifest({ discoveryHandler }), name: CONFIGURATION }
  await home.cluster.apply(configuration)
  await eventually(() => expect(home.kubelet.resource('akri.sh/lab').allocatable).toBe(1))
})
