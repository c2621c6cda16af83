import { once } from 'node:events'
import { mkdir, rm, symlink, writeFile } from 'node:fs/promises'
import net from 'node:net'
import path from 'node:path'
import { RegistrationClient } from '@akrijs/proto/discovery'
import { silentLogger, systemClock } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { DiscoveryProperties } from '@akrijs/sdk/handler'
import { credentials } from '@grpc/grpc-js'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { temporaryDirectory } from '../../../test/support/temporary-directory.js'
import { serveHandler } from '../testing/served-handler.js'
import { leaveSocket, listenOn } from '../testing/sockets.js'
import { EmbeddedEndpoint } from './embedded-endpoint.js'
import { HandlerRegistry } from './handler-registry.js'
import { AllowedAddresses } from './registration-request.js'
import {
  RegistrationServer,
  type RegistrationServerOptions,
  type RememberedHandler,
  rememberedHandlers,
} from './registration-server.js'

/** Any name, and any address. */
const ANY = {
  names: { allBut: new Set<string>() },
  addresses: new AllowedAddresses(['0.0.0.0/0', '::/0', '127.0.0.0/8', '::1']),
}
const range = (first: number, last: number) =>
  Array.from({ length: last - first + 1 }, (_, index) => first + index)

let directory: string
let outside: string
let registry: HandlerRegistry
let server: RegistrationServer
let clients: RegistrationClient[]
/** A socket that is served. */
let good: string

beforeEach(async () => {
  directory = await temporaryDirectory()
  outside = await temporaryDirectory()
  registry = new HandlerRegistry()
  clients = []
  server = await open()
  good = await listenOn(file('good.sock'))
})

afterEach(async () => {
  for (const client of clients) client.close()
  await server.close()
})

const file = (name: string) => path.join(directory, name)

const open = (options: Partial<RegistrationServerOptions> = {}) =>
  RegistrationServer.open({
    ...{ ...ANY, directory, registry, clock: systemClock, log: silentLogger },
    ...options,
  })

/** Serves with other options, after the end of the server before. */
async function serveWith(options: Partial<RegistrationServerOptions>): Promise<void> {
  await server.close()
  server = await open(options)
}

/** A client with a connection of its own. */
function connect(): RegistrationClient {
  const options = { 'grpc.use_local_subchannel_pool': 1 }
  const address = `unix:${server.socket}`
  const client = new RegistrationClient(address, credentials.createInsecure(), options)
  clients.push(client)
  return client
}

/** @param type also one that the contract does not know */
function register(
  name: string,
  endpoint: string,
  type = 0,
  shared = false,
  client = clients[0] ?? connect(),
): Promise<string> {
  const request = { name, endpoint, endpointType: type as 0, shared }
  return new Promise((resolve) => {
    client.registerDiscoveryHandler(request, (error) => resolve(error?.message ?? 'taken'))
  })
}

const uids = (name: string) => registry.endpoints(name).map(({ uid }) => uid)

/** Asks the first endpoint of a name. */
async function ask(name: string): Promise<void> {
  const request = {
    ...{ configuration: 'default/lab', details: '', properties: new DiscoveryProperties() },
    ...{ mostDevices: 1000, rank: () => 0 },
  }
  const [endpoint = expect.fail()] = registry.endpoints(name)
  for await (const _ of endpoint.discover(request, new AbortController().signal)) break
}

/** What an agent remembers of a handler at the socket that is served. */
const handler = (name: string, more: Partial<RememberedHandler> = {}): RememberedHandler => ({
  ...{ name, socket: good, shared: false, owner: `user ${process.getuid?.()}` },
  ...more,
})

describe('the registration of handlers', () => {
  it('A5 accepts sockets in its directory, and addresses, each as one endpoint', async () => {
    for (const shared of [false, true]) expect(await register('a', good, 0, shared)).toBe('taken')
    expect(registry.endpoints('a').map(({ shared }) => shared)).toEqual([true])
    const addresses = ['http://10.0.0.7', 'http://10.0.0.7:10000', 'http://[fd00::7]:10000']
    for (const address of addresses) expect(await register('a', address, 1)).toBe('taken')
    const places = [good, 'http://10.0.0.7:80', ...addresses.slice(1)]
    expect(uids('a')).toEqual(places.map((each) => `a@${each}`).sort())
  })

  it('A9 refuses wrong requests with the values that would be right, and goes on', async () => {
    await mkdir(file('sub'))
    const [outer, elsewhere] = [path.basename(outside), path.join(outside, 'x.sock')]
    await symlink(await listenOn(elsewhere), file('link.sock'))
    await writeFile(file('file.sock'), '')
    const refused: [message: RegExp, ...sockets: string[]][] = [
      [/not an absolute path/, 'relative.sock', '', '/\0'],
      [/is not in /, elsewhere, file('link.sock'), `${file('sub')}/../../${outer}/x.sock`],
      [/is not there/, file('none.sock')],
      [/is not a socket/, file('file.sock')],
      [/the agent's socket/, server.socket],
    ]
    for (const [message, ...sockets] of refused)
      for (const socket of sockets) expect(await register('a', socket)).toMatch(message)
    // Another host can have a name at the next look.
    const names = ['localhost:1', 'sensor.akri.svc:1', 'user@10.0.0.7:1', ':secret@10.0.0.7:1']
    const places = [...names, '10.0.0.7:99999', '[', ''].map((place) => `http://${place}`)
    for (const address of [...places, 'https://10.0.0.7:1', 'unix:/x'])
      expect(await register('a', address, 1)).toMatch(/not http:\/\/address:port/)
    for (const name of ['', 'a b', '__proto__', 'x'.repeat(64)])
      expect(await register(name, '/x')).toMatch(`name "${name}" is not a handler name`)
    expect(await register('a', '/x', 7)).toMatch(
      /INVALID_ARGUMENT.*endpoint_type 7 is not known; it is UDS \(0\) or NETWORK \(1\)/,
    )
    expect(registry.size).toBe(0)
  })

  it('refuses the names of loaded handlers, except on their own sockets', async () => {
    await serveWith({ names: { allBut: new Set(['udev']) } })
    expect(await register('udev', good)).toMatch(
      'PERMISSION_DENIED: the agent loads a handler udev itself; ' +
        'end this handler, or do not name it',
    )
    expect(await register('udev', 'http://10.0.0.7:10000', 1)).toMatch(/PERMISSION_DENIED/)
    expect(await register('Udev', good)).toBe('taken')
    await serveWith({ names: { only: new Set(['udev', 'onvif']) } })
    expect(await register('udev', good)).toBe('taken')
    expect(await register('opcua', good)).toMatch(/PERMISSION_DENIED: only udev, onvif register/)
    expect(registry.names).toEqual(['Udev', 'udev'])
  })

  it('dials a socket only while the path is a socket of its directory', async () => {
    await register('a', good)
    await rm(good)
    await symlink(await listenOn(path.join(outside, 'x.sock')), good)
    await expect(ask('a')).rejects.toThrow(/is not asked: endpoint .*good.sock" is not in /)
  })
})

describe('an endpoint on the network', () => {
  let clock: ManualClock
  let holders: Map<string, string>

  beforeEach(async () => {
    clock = new ManualClock()
    holders = new Map([['10.0.0.7', 'pod-1']])
    const pods = { holderOf: (address: string) => holders.get(address) }
    await serveWith({ addresses: new AllowedAddresses(['10.9.0.0/16'], pods), clock })
  })

  const waiting = (count: number) => eventually(() => expect(clock.sleeping).toHaveLength(count))

  it('has the address of a Pod of this node, or an address that the operator allows', async () => {
    for (const address of ['10.0.0.7', '[::ffff:10.0.0.7]', '0x0a.7', '10.9.1.1'])
      expect(await register('a', `http://${address}:10000`, 1), address).toBe('taken')
    expect(uids('a')).toEqual(['a@http://10.0.0.7:10000', 'a@http://10.9.1.1:10000'])
    const others = ['10.0.0.8', '127.0.0.1', '[::1]', '169.254.169.254', '0.0.0.0', '10.10.0.1']
    const answers = others.map((address) => register('a', `http://${address}:10000`, 1))
    await waiting(others.length)
    await clock.advance(5000)
    for (const answer of await Promise.all(answers)) {
      expect(answer).toMatch(/PERMISSION_DENIED: endpoint ".*": \S+ is not the address of a Pod/)
      expect(answer).toContain(
        'register from a Pod of this node, or name the address in AKRI_HANDLER_ADDRESSES of ' +
          'the agent (chart: agent.handlerAccess.addresses)',
      )
    }
    expect(uids('a')).toHaveLength(2)
  })

  it('is accepted as soon as the API server knows the address of its Pod', async () => {
    const answer = register('a', 'http://10.0.0.8:10000', 1)
    await waiting(1)
    await clock.advance(4000)
    holders.set('10.0.0.8', 'pod-2')
    await clock.advance(250)
    expect(await answer).toBe('taken')
    expect(clock.sleeping).toEqual([])
  })

  it('does not get the requests of another Pod that had its address before', async () => {
    await register('a', 'http://10.0.0.7:1', 1)
    const gone = /is not asked: 10.0.0.7 no longer belongs to the Pod that registered/
    for (const change of [() => holders.set('10.0.0.7', 'pod-2'), () => holders.clear()]) {
      change()
      await expect(ask('a')).rejects.toThrow(gone)
    }
  })

  it('waits for its Pod in a bounded number, and no longer than the agent runs', async () => {
    const answers = range(1, 80).map((port) => register('a', `http://10.0.0.8:${port}`, 1))
    await waiting(64)
    expect(await register('b', good)).toBe('taken')
    await server.close()
    for (const answer of await Promise.all(answers)) expect(answer).not.toBe('taken')
    expect(uids('a')).toEqual([])
    expect(clock.sleeping).toEqual([])
  })
})

describe('256 endpoints', () => {
  const fill = async () => {
    const names = range(1, 256 - registry.size).map((number) => `name${number}`)
    const answers = await Promise.all(names.map((name) => register(name, good)))
    expect(new Set(answers)).toEqual(new Set(['taken']))
  }
  const late = () => register('late', good)

  it('are the most: others are told so, and those 256 may register again', async () => {
    const load = () => Promise.reject(new TypeError('nobody asks'))
    const loaded = { name: 'loaded', load }
    registry.register(new EmbeddedEndpoint(loaded, silentLogger, Promise.resolve()))
    await fill()
    await server.restore(range(1, 9).map((number) => handler(`h${number}`)))
    const answers = await Promise.all(range(1, 50).map(late))
    expect(new Set(answers)).toEqual(
      new Set([
        '8 RESOURCE_EXHAUSTED: the agent has 256 endpoints of handlers, the most that it ' +
          'accepts, and each is still served; end a handler that is not needed, and this one can ' +
          'register',
      ]),
    )
    expect(await register('name1', good, 0, true)).toBe('taken')
    expect(registry.endpoints('name1').map(({ shared }) => shared)).toEqual([true])
    expect([registry.size, uids('loaded')]).toEqual([256, ['embedded-loaded']])
  })

  it('have room for others when handlers have left', async () => {
    const holders = new Map([['10.0.0.7', 'pod-1']])
    const pods = { holderOf: (address: string) => holders.get(address) }
    await serveWith({ addresses: new AllowedAddresses(['127.0.0.1'], pods) })
    const server = net.createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as net.AddressInfo
    const left = await listenOn(file('left.sock'))
    expect(await register('socket', left)).toBe('taken')
    expect(await register('port', `http://127.0.0.1:${port}`, 1)).toBe('taken')
    expect(await register('pod', 'http://10.0.0.7:10000', 1)).toBe('taken')
    await fill()
    await rm(left)
    await new Promise((resolve) => server.close(resolve))
    holders.clear()
    expect(await late()).toBe('taken')
    expect(['socket', 'port', 'pod'].flatMap((name) => uids(name))).toEqual([])
    expect(registry.size).toBe(254)
  })
})

describe('the handlers that an agent remembers', () => {
  it('are those at sockets of its node, with what they registered last', async () => {
    for (const shared of [false, true]) await register('lab', good, 0, shared)
    await register('lab', 'http://10.0.0.7:10000', 1)
    expect(rememberedHandlers(registry)).toEqual([handler('lab', { shared: true })])
    expect(rememberedHandlers(registry, ['lab'])).toEqual([])
  })

  it('A4 are registered at the start of the next agent if they may and are served', async () => {
    await leaveSocket(file('dead.sock'))
    await writeFile(file('text.sock'), '')
    await serveWith({ names: { allBut: new Set(['udev']) } })
    await register('known', good, 0, true)
    const [known] = registry.endpoints('known')
    await server.restore([
      ...['dead.sock', 'text.sock', 'away.sock', '../x.sock'].map((name) =>
        handler('away', { socket: file(name) }),
      ),
      handler('lab', { shared: true }),
      handler('another', { owner: 'user 4711' }),
      handler('udev'),
      handler('a b'),
      // It came meanwhile.
      handler('known'),
    ])
    expect(rememberedHandlers(registry)).toEqual(
      ['known', 'lab'].map((name) => handler(name, { shared: true })),
    )
    expect(registry.endpoints('known')).toEqual([known])
  })
})

describe('a flood of connections', () => {
  it('ends the oldest beyond 512: others register, and a handler of the SDK returns', async () => {
    await serveHandler('told', directory, () => [])
    const sockets: net.Socket[] = []
    try {
      await eventually(() => expect(uids('told')).toHaveLength(1))
      const [registered] = registry.endpoints('told')
      const returned: unknown[] = []
      registry.onChange(({ reregistered }) => {
        returned.push(reregistered)
      }, new AbortController().signal)
      for (const _ of range(1, 600)) {
        const connection = net.connect(server.socket)
        connection.on('error', () => {}).resume()
        sockets.push(connection)
        await once(connection, 'connect')
      }
      await eventually(() => expect(returned).toEqual([registered]))
      expect(await register('late', good, 0, false, connect())).toBe('taken')
      await eventually(() =>
        expect(sockets.filter(({ destroyed }) => !destroyed).length).toBeLessThanOrEqual(510),
      )
      expect(registry.endpoints('told')).toEqual([registered])
    } finally {
      for (const connection of sockets) connection.destroy()
    }
  })

  it('without right HTTP/2 disturbs no others, and ends with the agent', async () => {
    const preface = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'
    const starts = ['', '\x16\x03\x01', 'GET / HTTP/1.1\r\n', preface.slice(0, 9), preface]
    const sockets = [...starts, `${preface}${'\x7f'.repeat(2000)}`].map((start) => {
      const socket = net.connect(server.socket)
      socket.on('error', () => {}).resume()
      socket.write(start)
      return socket
    })
    expect(await register('good', good)).toBe('taken')
    // A connection that is reset ends no process.
    sockets.pop()?.resetAndDestroy()
    expect(await register('good', good)).toBe('taken')
    await server.close()
    await eventually(() => expect(sockets.every(({ closed }) => closed)).toBe(true))
  })
})
