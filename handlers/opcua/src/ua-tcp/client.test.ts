import net from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { application, SimulatedServer } from '../../test-peers/simulated-server.js'
import { type CallOptions, callService, type Target } from './client.js'
import { findServers, findServersOnNetwork, getEndpoints } from './discovery-services.js'

const closing: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closing.splice(0)) await close()
})

async function simulated(): Promise<SimulatedServer> {
  const server = await SimulatedServer.start()
  closing.push(() => server.close())
  return server
}

/**
 * Starts a server that handles each connection as the test defines. `gone` resolves when a
 * connection ends.
 */
async function rawServer(serve: (socket: net.Socket) => void) {
  const sockets = new Set<net.Socket>()
  let over = () => {}
  const gone = new Promise<void>((resolve) => {
    over = resolve
  })
  const server = net.createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.resume()
    socket.on('close', () => over())
    serve(socket)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closing.push(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const address = server.address()
  return { port: typeof address === 'object' && address !== null ? address.port : 0, gone }
}

function target(port: number, addresses = ['127.0.0.1']): Target {
  return { addresses, port, endpointUrl: `opc.tcp://127.0.0.1:${port}/` }
}

function findAt(port: number, options: Partial<CallOptions> = {}) {
  return callService(findServers, target(port), {
    signal: new AbortController().signal,
    ...options,
  })
}

const { signal } = new AbortController()

describe('a service call', () => {
  it('returns an answer of any number of chunks, and closes the connection', async () => {
    const server = await simulated()
    server.chunkBytes = 500
    server.applications = Array.from({ length: 100 }, (_, index) =>
      application({ applicationName: `server ${index}` }),
    )
    server.records = [
      { serverName: 'a', discoveryUrl: 'opc.tcp://a:4840', serverCapabilities: ['DA'] },
    ]
    const options = { signal, limits: { chunks: 1000 } }
    expect(await callService(findServers, target(server.port), options)).toEqual(
      server.applications,
    )
    expect(await callService(getEndpoints, target(server.port), options)).toEqual(server.endpoints)
    expect(await callService(findServersOnNetwork, target(server.port), options)).toEqual(
      server.records,
    )
    await expect.poll(() => server.connections).toBe(0)
  })

  it('reports why there is no connection', async () => {
    const { port } = await simulated()
    await closing.pop()?.()
    await expect(findAt(port)).rejects.toMatchObject({
      code: 'AKRI_ERR_OPCUA_UNREACHABLE',
      message: expect.stringContaining(`ECONNREFUSED 127.0.0.1:${port}`),
    })
    await expect(callService(findServers, target(port, []), { signal })).rejects.toMatchObject({
      code: 'AKRI_ERR_OPCUA_UNREACHABLE',
    })
  })

  it('tries the next address if an address does not accept the connection', async () => {
    const server = await simulated()
    const found = await callService(findServers, target(server.port, ['127.0.0.2', '127.0.0.1']), {
      signal,
    })
    expect(found).toHaveLength(1)
  })

  it('works over IPv6', async (context) => {
    const server = await SimulatedServer.start({ host: '::1' }).catch(() => undefined)
    if (server === undefined) return context.skip('there is no IPv6 here')
    closing.push(() => server.close())
    expect(await callService(findServers, target(server.port, ['::1']), { signal })).toEqual(
      server.applications,
    )
    expect(server.url).toBe(`opc.tcp://[::1]:${server.port}/`)
  })

  it('ends at a silent server', async () => {
    const { port, gone } = await rawServer(() => {})
    await expect(findAt(port, { totalMs: 1500 })).rejects.toMatchObject({
      code: 'AKRI_ERR_OPCUA_TIMEOUT',
      message: expect.stringMatching(
        /did not complete its answer in 1500 ms: received 0 bytes, still missing Acknowledge/,
      ),
    })
    await gone
  })

  it('ends at a server that sends single bytes, after the total time', async () => {
    const { port, gone } = await rawServer((socket) => {
      const answer = Buffer.from('ACKF\xff\0\0\0', 'latin1')
      let at = 0
      const timer = setInterval(() => socket.write(answer.subarray(at, ++at)), 20)
      socket.on('close', () => clearInterval(timer))
    })
    await expect(findAt(port, { totalMs: 1500 })).rejects.toMatchObject({
      code: 'AKRI_ERR_OPCUA_TIMEOUT',
      message: expect.stringMatching(/received \d*[1-9]\d* bytes, still missing Acknowledge/),
    })
    await gone
  })

  it.each([
    ['that hangs up', (socket: net.Socket) => socket.end(), 'AKRI_ERR_OPCUA_UNREACHABLE'],
    [
      'that breaks the connection',
      (socket: net.Socket) => socket.resetAndDestroy(),
      'AKRI_ERR_OPCUA_UNREACHABLE',
    ],
    [
      'of another kind',
      (socket: net.Socket) => socket.end('220 mail.example ESMTP\r\n'),
      'AKRI_ERR_OPCUA_PROTOCOL',
    ],
    [
      'that floods',
      (socket: net.Socket) => socket.write(Buffer.alloc(10_000_000, 0xff)),
      'AKRI_ERR_OPCUA_PROTOCOL',
    ],
  ])('fails at a server %s', async (_, serve, code) => {
    const { port, gone } = await rawServer(serve)
    await expect(findAt(port)).rejects.toMatchObject({ code })
    await gone
  })

  it('ends with its signal, at any time', async () => {
    const { port, gone } = await rawServer(() => {})
    const stop = new AbortController()
    const asked = findAt(port, { signal: stop.signal })
    setImmediate(() => stop.abort(new Error('enough')))
    await expect(asked).rejects.toThrow('enough')
    await expect(findAt(port, { signal: stop.signal })).rejects.toThrow('enough')
    const later = new AbortController()
    const connected = await rawServer(() => later.abort(new Error('later')))
    await expect(findAt(connected.port, { signal: later.signal })).rejects.toThrow('later')
    await Promise.race([gone, connected.gone])
  })
})
