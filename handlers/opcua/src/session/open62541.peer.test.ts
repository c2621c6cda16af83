import { connect, createServer, type Socket } from 'node:net'
import {
  type Device,
  DiscoveryProperties,
  type Logger,
  messageOf,
  serve,
  silentLogger,
  systemClock,
} from '@akrijs/sdk'
import { SimulatedAgent } from '@akrijs/sdk/testing'
import { describe, expect, it } from 'vitest'
import {
  missingForOpen62541,
  type Open62541Server,
  useOpen62541,
} from '../../test-peers/open62541.js'
import { createOpcuaHandler } from '../index.js'
import { ServerSessions, type ServerSessionsOptions } from './server-sessions.js'
import { SessionPlaces } from './session-places.js'

// Sessions with an independent server implementation.

const needed = missingForOpen62541.length > 0 ? ` (needs ${missingForOpen62541.join(', ')})` : ''
const anna = { username_default: 'anna', password_default: 'geheim' }
const FACTS = {
  OPCUA_SERVER_STATE: 'Running',
  OPCUA_SERVER_START_TIME: expect.stringMatching(/^20\d\d-/),
  OPCUA_PRODUCT_NAME: 'Mixer',
  OPCUA_MANUFACTURER: 'ACME',
  OPCUA_SOFTWARE_VERSION: '2.4.1',
  OPCUA_BUILD_NUMBER: '77',
  OPCUA_BUILD_DATE: '2026-02-03T04:05:06.000Z',
  OPCUA_NAMESPACES: 'http://opcfoundation.org/UA/ urn:test:Mixer',
}

describe.skipIf(missingForOpen62541.length > 0)(
  `a session with a server of open62541${needed}`,
  () => {
    const peers = useOpen62541()

    it('adds state, product and namespaces to the device with serverDetails', async () => {
      const { url } = await peers.start('Mixer')
      const plain = await offered(url, {})
      const detailed = await offered(url, { serverDetails: true })
      expect(plain?.properties).not.toHaveProperty('OPCUA_SERVER_DETAILS')
      expect(detailed).toEqual({
        ...plain,
        properties: { ...plain?.properties, OPCUA_SERVER_DETAILS: 'anonymous', ...FACTS },
      })
    })

    it('has no security if the server refuses the certificate, or fails', async () => {
      const open = await peers.start('Mixer', '-s')
      const anonymous = { OPCUA_SERVER_DETAILS: 'anonymous', ...FACTS }
      expect(await read(open.port)).toEqual(anonymous)
      expect(await read(open.port, anna)).toEqual({
        ...anonymous,
        OPCUA_DEFAULT_CREDENTIAL: 'credential-not-taken',
      })
      const { port } = await peers.start('Mixer', '-s', '-u', 'anna:geheim')
      const messages: string[] = []
      const log: Logger = {
        ...silentLogger,
        info: ({ err }) => messages.push(messageOf(err)),
      }
      expect(await read(port, anna, { trustAnyServer: true, log })).toEqual({})
      expect(messages).toEqual([
        expect.stringMatching(/^the server may not trust the certificate of the handler: /),
      ])
    })

    it('has a user, whose password goes encrypted to a trusted server only', async () => {
      const secured = await peers.start('Mixer', '-s', '-t', '-u', 'anna:geheim')
      expect(await read(secured.port, anna)).toEqual({
        OPCUA_SERVER_DETAILS: 'certificate-not-trusted',
      })
      const user = { OPCUA_SERVER_DETAILS: 'user', ...FACTS }
      expect(await read(secured.port, anna, { trustAnyServer: true })).toEqual(user)
      const plain = await peers.start('Mixer', '-u', 'anna:geheim')
      expect(await read(plain.port, anna, { trustAnyServer: true })).toEqual({
        OPCUA_SERVER_DETAILS: 'security-too-weak',
      })
      expect(await read(plain.port, anna, { allowUnencryptedPasswords: true })).toEqual(user)
    })

    it('fails with a wrong password, an unknown user or none, and reports which', async () => {
      const { port } = await peers.start('Mixer', '-s', '-t', '-u', 'anna:geheim')
      const refused = { OPCUA_SERVER_DETAILS: 'credential-refused' }
      expect(
        await read(port, { ...anna, password_default: 'falsch' }, { trustAnyServer: true }),
      ).toEqual(refused)
      expect(
        await read(port, { ...anna, username_default: 'bert' }, { trustAnyServer: true }),
      ).toEqual(refused)
      expect(await read(port)).toEqual({ OPCUA_SERVER_DETAILS: 'credential-wanted' })
    })

    it('ends when the server is killed, and opens with its replacement', async () => {
      const before = await peers.start('Mixer')
      const cut = await Cut.before(before)
      try {
        const sessions = await open()
        // The first connection reads the endpoints, and the second carries the session.
        cut.onMessages = (connection, messages) => {
          if (connection === 2 && messages === 3) before.child.kill('SIGKILL')
        }
        await sessions.update([known(cut.url)], new AbortController().signal)
        expect(sessions.of({ discoveryUrl: cut.url })).toEqual({})
        cut.target = await peers.start('Mixer')
        const again = await open()
        await again.update([known(cut.url)], new AbortController().signal)
        expect(again.of({ discoveryUrl: cut.url })).toEqual({
          OPCUA_SERVER_DETAILS: 'anonymous',
          ...FACTS,
        })
      } finally {
        await cut.close()
      }
    })

    it('that breaks at any point leaves no details, in time, and no open connection', async () => {
      const server = await peers.start('Mixer')
      const cut = await Cut.before(server)
      try {
        // ACK, and the responses to OpenSecureChannel, CreateSession, ActivateSession and Read.
        for (const messages of [1, 2, 3, 4, 5]) {
          const first = cut.connections + 1
          cut.onMessages = (connection, count, socket) => {
            if (connection > first && count === messages) socket.destroy()
          }
          const begin = systemClock.monotonicMs()
          const sessions = await open()
          await sessions.update([known(cut.url)], new AbortController().signal)
          expect([messages, sessions.of({ discoveryUrl: cut.url })]).toEqual([messages, {}])
          expect(systemClock.monotonicMs() - begin).toBeLessThan(30_000)
          await expect.poll(() => cut.open).toBe(0)
        }
        cut.onMessages = () => undefined
        const sessions = await open()
        await sessions.update([known(cut.url)], new AbortController().signal)
        expect(sessions.of({ discoveryUrl: cut.url })).toMatchObject({
          OPCUA_PRODUCT_NAME: 'Mixer',
        })
      } finally {
        await cut.close()
      }
    })
  },
)

/** The device that the handler offers. */
async function offered(url: string, details: object): Promise<Device | undefined> {
  const agent = await SimulatedAgent.start()
  const server = await serve(createOpcuaHandler(), { directory: agent.directory })
  const opcuaDiscoveryMethod = { standard: { discoveryUrls: [url] } }
  const session = await agent.discover('opcua', {
    details: JSON.stringify({ opcuaDiscoveryMethod, ...details }),
  })
  try {
    const [device] = await session.next()
    return device
  } finally {
    await session.close()
    await server.close()
    await agent.close()
  }
}

const known = (url: string) => ({
  server: { discoveryUrl: url },
  application: { applicationUri: 'urn:test:Mixer', productUri: '', applicationName: '' },
})

function open(
  texts: Readonly<Record<string, string>> = {},
  options: Partial<ServerSessionsOptions> = {},
) {
  return ServerSessions.open({
    properties: DiscoveryProperties.fromTexts(texts),
    places: new SessionPlaces(),
    targetOf: async ({ discoveryUrl }) => {
      return {
        addresses: ['127.0.0.1'],
        port: Number(new URL(discoveryUrl).port),
        endpointUrl: discoveryUrl,
      }
    },
    clock: systemClock,
    log: silentLogger,
    ...options,
  })
}

async function read(
  port: number,
  texts: Readonly<Record<string, string>> = {},
  options: Partial<ServerSessionsOptions> = {},
) {
  const url = `opc.tcp://127.0.0.1:${port}`
  const sessions = await open(texts, options)
  await sessions.update([known(url)], new AbortController().signal)
  return sessions.of({ discoveryUrl: url })
}

/** A relay to a server that can break at any message. */
class Cut {
  target: Pick<Open62541Server, 'port'>
  connections = 0
  url = ''
  /** Called for each message of the server, with the number of the connection, from 1. */
  onMessages: (connection: number, messages: number, socket: Socket) => void = () => undefined
  readonly #sockets = new Set<Socket>()
  readonly #server = createServer((socket) => this.#pass(socket))

  private constructor(target: Pick<Open62541Server, 'port'>) {
    this.target = target
  }

  static async before(target: Open62541Server): Promise<Cut> {
    const cut = new Cut(target)
    await new Promise<void>((resolve) => cut.#server.listen(0, '127.0.0.1', resolve))
    const address = cut.#server.address()
    cut.url = `opc.tcp://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`
    return cut
  }

  get open(): number {
    return this.#sockets.size
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  #pass(socket: Socket): void {
    const connection = ++this.connections
    let messages = 0
    this.#sockets.add(socket)
    const upstream = connect(this.target.port, '127.0.0.1')
    for (const [first, other] of [
      [socket, upstream],
      [upstream, socket],
    ] as const) {
      first.on('error', () => undefined)
      first.on('close', () => other.destroy())
    }
    socket.on('close', () => this.#sockets.delete(socket))
    socket.pipe(upstream)
    upstream.on('data', (bytes) => {
      messages++
      // Sends half of the message and drops the rest.
      socket.write(bytes.subarray(0, bytes.length / 2))
      this.onMessages(connection, messages, socket)
      if (!socket.destroyed) socket.write(bytes.subarray(bytes.length / 2))
    })
  }
}
