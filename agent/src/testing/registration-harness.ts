import { mkdtemp, rm } from 'node:fs/promises'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { RegistrationClient } from '@akrijs/proto/discovery'
import { aborted, silentLogger, systemClock } from '@akrijs/runtime'
import { DiscoveryProperties, defineDiscoveryHandler } from '@akrijs/sdk/handler'
import { credentials } from '@grpc/grpc-js'
import { expect } from 'vitest'
import { HandlerRegistry } from '../handlers/handler-registry.js'
import { AllowedAddresses } from '../handlers/registration-request.js'
import {
  RegistrationServer,
  type RegistrationServerOptions,
} from '../handlers/registration-server.js'

// For tests of the registration: a server on a socket, and clients that register over it.

/** A handler with one device. */
export const toldHandler = defineDiscoveryHandler({
  name: 'told',
  shared: true,
  details: { '~standard': { version: 1, vendor: 'test', validate: (value) => ({ value }) } },
  async *discover({ signal }) {
    yield [{ id: '1' }]
    await aborted(signal)
  },
})

export const range = (first: number, last: number) =>
  Array.from({ length: last - first + 1 }, (_, index) => first + index)

/** Any name, and any address. */
const ANY = {
  names: { allBut: new Set<string>() },
  addresses: new AllowedAddresses(['0.0.0.0/0', '::/0', '127.0.0.0/8', '::1']),
}

/** A registration server in a directory of its own. */
export class RegistrationHarness {
  readonly directory: string
  readonly registry = new HandlerRegistry()
  #server: RegistrationServer | undefined
  readonly #clients: RegistrationClient[] = []
  readonly #listeners: net.Server[] = []
  private constructor(directory: string) {
    this.directory = directory
  }

  static async start(): Promise<RegistrationHarness> {
    const harness = new RegistrationHarness(await mkdtemp(path.join(os.tmpdir(), 'akri-')))
    await harness.serve()
    return harness
  }

  get server(): RegistrationServer {
    return this.#server ?? expect.fail('the server has not started')
  }

  /** Serves on the socket with other options, after the end of the server before. */
  async serve(options: Partial<RegistrationServerOptions> = {}): Promise<void> {
    await this.#server?.close()
    const { directory, registry } = this
    const own = { ...ANY, directory, registry, clock: systemClock, log: silentLogger }
    this.#server = await RegistrationServer.open({ ...own, ...options })
  }

  async close(): Promise<void> {
    for (const client of this.#clients) client.close()
    await this.#server?.close()
    for (const listener of this.#listeners) listener.close()
    await rm(this.directory, { recursive: true, force: true })
  }

  /** A client with a connection of its own. */
  connect(): RegistrationClient {
    const options = { 'grpc.use_local_subchannel_pool': 1 }
    const address = `unix:${this.server.socket}`
    const client = new RegistrationClient(address, credentials.createInsecure(), options)
    this.#clients.push(client)
    return client
  }

  /** @param client by default one that other registrations use too */
  register(
    name: string,
    endpoint: string,
    type = 0,
    shared = false,
    client = this.#clients[0] ?? this.connect(),
  ): Promise<string> {
    return new Promise((resolve) => {
      // The test also sends a type that the contract does not know.
      const endpointType = type as 0
      client.registerDiscoveryHandler({ name, endpoint, endpointType, shared }, (error) =>
        resolve(error?.message ?? 'taken'),
      )
    })
  }

  /** A socket with a listener. */
  async socket(file: string): Promise<string> {
    const listener = net.createServer()
    this.#listeners.push(listener)
    await new Promise<void>((resolve) => listener.listen(file, resolve))
    return file
  }

  uids(name: string): string[] {
    return this.registry.endpoints(name).map(({ uid }) => uid)
  }

  /** The first list of the first endpoint of a name. */
  async firstListOf(name: string): Promise<unknown> {
    const request = {
      configuration: 'default/lab',
      details: '',
      properties: new DiscoveryProperties(),
      mostDevices: 1000,
      rank: () => 0,
    }
    const [endpoint] = this.registry.endpoints(name)
    const stop = new AbortController()
    for await (const list of endpoint?.discover(request, stop.signal) ?? []) return list
    return undefined
  }
}
