import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { DiscoveryProperties, silentLogger, systemClock } from '@akrijs/sdk'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { eventually } from '../../../../test/support/eventually.js'
import { encodeAcknowledge } from '../../test-peers/encode-response.js'
import { SecuredServer } from '../../test-peers/secured-server.js'
import { readEndpointUrl } from '../endpoint-url.js'
import { ServerSessions } from './server-sessions.js'
import { SessionPlaces } from './session-places.js'

const URI = 'urn:akri:test:interrupted'
/** The time limit of node-opcua for an answer, independent of the session. */
const LIBRARY_MS = 15_000
let server: SecuredServer

beforeAll(async () => {
  server = await SecuredServer.start({ applicationUri: URI, modes: ['None'] })
})

afterAll(() => server.close())

/**
 * A relay to the server. After a number of messages of a session, the relay continues with other
 * bytes and never closes the connection.
 */
class Line {
  /** Connections that the client still holds open: it accepts bytes. */
  readonly open = new Set<Socket>()
  url = ''
  readonly #server = createServer({ allowHalfOpen: true }, (socket) => this.#pass(socket))
  readonly #messages: number
  readonly #intrude: (socket: Socket, message: Buffer) => void
  #connections = 0

  private constructor(messages: number, intrude: (socket: Socket, message: Buffer) => void) {
    this.#messages = messages
    this.#intrude = intrude
  }

  static async open(
    messages: number,
    intrude: (socket: Socket, message: Buffer) => void,
  ): Promise<Line> {
    const line = new Line(messages, intrude)
    line.#server.listen(0, '127.0.0.1')
    await once(line.#server, 'listening')
    const address = line.#server.address()
    line.url = `opc.tcp://127.0.0.1:${typeof address === 'object' ? address?.port : ''}/UA/Secured`
    return line
  }

  #pass(socket: Socket): void {
    // The first connection reads the endpoints.
    const isSession = this.#connections++ > 0
    this.open.add(socket)
    socket.on('error', () => undefined)
    socket.once('close', () => this.open.delete(socket))
    const upstream = connect(readEndpointUrl(server.url)?.port ?? 0, '127.0.0.1')
    upstream.on('error', () => undefined)
    socket.pipe(upstream)
    let messages = 0
    upstream.on('data', (message) => {
      if (isSession && ++messages > this.#messages) this.#intrude(socket, message)
      else socket.write(message)
    })
    upstream.on('close', () => {
      if (!isSession) return socket.end()
      // Only sent bytes tell a closed socket from a half-closed one.
      const timer = setInterval(() => socket.write('x'), 50)
      socket.once('close', () => clearInterval(timer))
      return undefined
    })
  }

  async close(): Promise<void> {
    for (const socket of this.open) socket.destroy()
    await new Promise((resolve) => this.#server.close(resolve))
  }
}

/** Sends a chunk of an endless answer every 20 ms. */
function sendChunks(socket: Socket, message: Buffer): void {
  let sequence = message.readUInt32LE(16)
  const timer = setInterval(() => {
    const chunk = Buffer.concat([message.subarray(0, 24), Buffer.alloc(10)])
    chunk.write('C', 3, 'latin1')
    chunk.writeUInt32LE(chunk.length, 4)
    chunk.writeUInt32LE(sequence++, 16)
    socket.write(chunk)
  }, 20)
  socket.once('close', () => clearInterval(timer))
}

/** Acknowledges with a chunk that is larger than any limit. */
function sendHugeChunk(socket: Socket): void {
  socket.write(
    Buffer.concat([encodeAcknowledge(8192), Buffer.from('OPNF\xf0\xff\xff\xff', 'latin1')]),
  )
}

/** Reads the server through a line, and gets nothing. */
async function readThrough(line: Line): Promise<void> {
  const { port = 0 } = readEndpointUrl(line.url) ?? {}
  const sessions = await ServerSessions.open(
    {
      properties: new DiscoveryProperties(),
      places: new SessionPlaces(),
      targetOf: async ({ discoveryUrl }) => ({
        addresses: ['127.0.0.1'],
        port,
        endpointUrl: discoveryUrl,
      }),
      clock: systemClock,
      log: silentLogger,
    },
    { sessionMs: 2000 },
  )
  const application = { applicationUri: URI, productUri: '', applicationName: '' }
  await sessions.update(
    [{ server: { discoveryUrl: line.url }, application }],
    new AbortController().signal,
  )
  expect(sessions.of({ discoveryUrl: line.url })).toEqual({})
}

// Acknowledge, and the responses to OpenSecureChannel, CreateSession, ActivateSession and Read.
type Fault = [number, string, (socket: Socket, message: Buffer) => void, withinMs?: number]
it.each<Fault>([
  ...[0, 1, 2, 3, 4].flatMap((messages): Fault[] => [
    [messages, 'says nothing', () => undefined],
    // node-opcua may connect again.
    [messages, 'hangs up', (socket) => void socket.destroy(), 2 * LIBRARY_MS],
  ]),
  [2, 'sends chunks without end', sendChunks],
  [3, 'sends chunks without end', sendChunks],
  [4, 'sends chunks without end', sendChunks],
  // node-opcua throws in an event of its socket.
  [0, 'allows chunks of no bytes', (socket) => void socket.write(encodeAcknowledge(0))],
  [0, 'sends a chunk of 4 GB at once', sendHugeChunk],
  [0, 'talks nonsense', (socket) => void socket.write(Buffer.alloc(1000, 0xff))],
])(
  'a session ends in time, with a closed socket, if the server after %i messages %s',
  async (messages, _, intrude, withinMs = LIBRARY_MS) => {
    const line = await Line.open(messages, intrude)
    try {
      const begin = systemClock.monotonicMs()
      await readThrough(line)
      await eventually(() => expect(line.open.size).toBe(0))
      expect(systemClock.monotonicMs() - begin).toBeLessThan(withinMs)
    } finally {
      await line.close()
    }
  },
)

it('a session ends after some megabytes, whatever size of messages the server allows', async () => {
  let sent = 0
  let isOpen = false
  const line = await Line.open(0, (socket) => {
    if (isOpen) return
    isOpen = true
    socket.write(encodeAcknowledge(0xffff_ffff))
    const fill = () => {
      while (!socket.destroyed && socket.write(Buffer.alloc(64 * 1024))) sent += 64 * 1024
    }
    // After the request for a channel.
    socket.once('data', () => {
      socket.write(Buffer.from('OPNF\xf0\xff\xff\xff', 'latin1'))
      socket.on('drain', fill)
      fill()
    })
  })
  try {
    await readThrough(line)
    await eventually(() => expect(line.open.size).toBe(0))
    expect(sent).toBeGreaterThan(1024 * 1024)
    expect(sent).toBeLessThan(32 * 1024 * 1024)
  } finally {
    await line.close()
  }
})
