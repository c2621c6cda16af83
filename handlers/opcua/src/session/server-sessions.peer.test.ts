import { connect, createServer, type Server, type Socket } from 'node:net'
import { DiscoveryProperties, type Logger } from '@akrijs/sdk'
import { ManualClock } from '@akrijs/sdk/testing'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { Certificates, hasOpenssl } from '../../test-peers/certificates.js'
import { SecuredServer } from '../../test-peers/secured-server.js'
import { SimulatedServer } from '../../test-peers/simulated-server.js'
import { readEndpointUrl } from '../endpoint-url.js'
import type { OpcuaServer } from '../opcua-server.js'
import {
  ServerSessions,
  type ServerSessionsOptions,
  type SessionLimits,
} from './server-sessions.js'
import { SessionPlaces } from './session-places.js'

// The server of node-opcua has sessions, security and users. Its start takes seconds, so all tests
// share it.

const URI = 'urn:akri:test:secured'
const users = { anna: 'geheim' }
const certificates = new Certificates()
let open: SecuredServer
let strict: SecuredServer
let unencrypted: SecuredServer
let weak: SecuredServer

beforeAll(async () => {
  open = await SecuredServer.start({ applicationUri: URI, users })
  strict = await SecuredServer.start({ applicationUri: URI, users, trusting: false })
  unencrypted = await SecuredServer.start({
    applicationUri: URI,
    users,
    modes: ['None'],
    allowAnonymous: false,
  })
  weak = await SecuredServer.start({ applicationUri: URI, users, modes: ['None'] })
})

afterAll(async () => {
  for (const server of [open, strict, unencrypted, weak]) await server.close()
  certificates.remove()
})

let clock: ManualClock
let logged: string[]
let stop: AbortController

beforeEach(() => {
  clock = new ManualClock(Date.now())
  logged = []
  stop = new AbortController()
  for (const { logins } of [open, strict, unencrypted]) logins.length = 0
})

afterEach(() => {
  stop.abort()
})

const line = (fields: object, message: string) =>
  void logged.push(
    JSON.stringify({ ...fields, message }, (_, value) =>
      value instanceof Error ? String(value) : value,
    ),
  )
const log: Logger = { debug() {}, info: line, warn: line, error: line, child: () => log }

function sessions(
  texts: Readonly<Record<string, string>> = {},
  options: Partial<ServerSessionsOptions> = {},
  limits: SessionLimits = {},
) {
  return ServerSessions.open(
    {
      properties: DiscoveryProperties.fromTexts(texts),
      places: new SessionPlaces(),
      targetOf: async ({ discoveryUrl }: OpcuaServer) => {
        const port = readEndpointUrl(discoveryUrl)?.port
        return port === undefined
          ? undefined
          : { addresses: ['127.0.0.1'], port, endpointUrl: discoveryUrl }
      },
      clock,
      log,
      ...options,
    },
    limits,
  )
}

const known = (url: string, applicationUri = URI) => ({
  server: { discoveryUrl: url },
  application: { applicationUri, productUri: '', applicationName: '' },
})

async function read(
  url: string,
  texts: Readonly<Record<string, string>> = {},
  options: Partial<ServerSessionsOptions> = {},
  limits: SessionLimits = {},
) {
  const reader = await sessions(texts, options, limits)
  await reader.update([known(url)], stop.signal)
  return reader.of({ discoveryUrl: url })
}

const FACTS = {
  OPCUA_SERVER_STATE: 'Running',
  OPCUA_SERVER_START_TIME: expect.stringMatching(/^20\d\d-/),
  OPCUA_PRODUCT_NAME: 'Mixer',
  OPCUA_MANUFACTURER: 'ACME',
  OPCUA_SOFTWARE_VERSION: '2.4.1',
  OPCUA_BUILD_NUMBER: '77',
  OPCUA_BUILD_DATE: '2026-02-03T04:05:06.000Z',
  OPCUA_NAMESPACES: `http://opcfoundation.org/UA/ ${URI}`,
}
const anna = { username_default: 'anna', password_default: 'geheim' }
/** A credential for this server, which its Configuration means. */
const own = { username_urn_akri_test_secured: 'anna', password_urn_akri_test_secured: 'geheim' }

describe('a session with a server', () => {
  it('reads state, product and namespaces without a user', async () => {
    expect(await read(open.url)).toEqual({ OPCUA_SERVER_DETAILS: 'anonymous', ...FACTS })
    expect(logged).toEqual([])
  })

  it('has a user with a credential and a trusted certificate of the server', async () => {
    const trusted_server_certificates = open.certificate
    expect(await read(open.url, { ...anna, trusted_server_certificates })).toEqual({
      OPCUA_SERVER_DETAILS: 'user',
      ...FACTS,
    })
    expect(open.logins).toEqual([['anna', 'geheim']])
  })

  it('sends no password to a server without a trusted certificate, unless allowed', async () => {
    expect(await read(open.url, own)).toEqual({ OPCUA_SERVER_DETAILS: 'certificate-not-trusted' })
    const trusted_server_certificates = strict.certificate
    expect(await read(open.url, { ...own, trusted_server_certificates })).toEqual({
      OPCUA_SERVER_DETAILS: 'certificate-not-trusted',
    })
    expect(open.logins).toEqual([])
    expect(await read(open.url, own, { trustAnyServer: true })).toMatchObject({
      OPCUA_SERVER_DETAILS: 'user',
    })
  })

  it('sends no clear-text password, unless allowed', async () => {
    expect(await read(unencrypted.url, own, { trustAnyServer: true })).toEqual({
      OPCUA_SERVER_DETAILS: 'security-too-weak',
    })
    expect(unencrypted.logins).toEqual([])
    const told = await read(unencrypted.url, own, { allowUnencryptedPasswords: true })
    expect(told).toMatchObject({ OPCUA_SERVER_DETAILS: 'user', OPCUA_PRODUCT_NAME: 'Mixer' })
    expect(unencrypted.logins).toEqual([['anna', 'geheim']])
  })

  it('reports that a credential is wanted or refused', async () => {
    expect(await read(unencrypted.url)).toEqual({ OPCUA_SERVER_DETAILS: 'credential-wanted' })
    const wrong = { ...own, password_urn_akri_test_secured: 'falsch' }
    expect(await read(open.url, wrong, { trustAnyServer: true })).toEqual({
      OPCUA_SERVER_DETAILS: 'credential-refused',
    })
    expect(logged.join()).not.toContain('falsch')
  })

  it('has no security without a credential if the certificate is refused', async () => {
    expect(await read(strict.url)).toEqual({ OPCUA_SERVER_DETAILS: 'anonymous', ...FACTS })
    expect(await read(strict.url, own, { trustAnyServer: true })).toEqual({})
    expect(strict.logins).toEqual([])
    expect(logged.join()).toMatch(/BadSecurityChecksFailed/)
  })

  describe('with a credential for all servers', () => {
    it.each<[string, () => SecuredServer, Parameters<typeof read>[1], object]>([
      ['certificate-not-trusted', () => open, anna, {}],
      ['connection-refused', () => strict, anna, { trustAnyServer: true }],
      [
        'credential-refused',
        () => open,
        { ...anna, password_default: 'falsch' },
        { trustAnyServer: true },
      ],
      ['security-too-weak', () => weak, anna, { trustAnyServer: true }],
    ])(
      'has no user if it cannot be used, and says why: %s',
      async (why, server, texts, options) => {
        const reader = await sessions(texts, options)
        const { url } = server()
        for (let round = 0; round < 2; round++) {
          await reader.update([known(url)], stop.signal)
          expect(reader.of({ discoveryUrl: url })).toEqual({
            OPCUA_SERVER_DETAILS: 'anonymous',
            OPCUA_DEFAULT_CREDENTIAL: why,
            ...FACTS,
          })
          await clock.advance(10 * 60_000)
        }
        expect(logged).toHaveLength(1)
        expect(logged[0]).toContain('default credential not used')
        expect(logged[0]).not.toContain('falsch')
      },
    )

    it('reports the problem of the credential if the server wants a user', async () => {
      const wrong = { ...anna, password_default: 'falsch' }
      expect(await read(unencrypted.url, anna, { trustAnyServer: true })).toEqual({
        OPCUA_SERVER_DETAILS: 'security-too-weak',
      })
      expect(await read(unencrypted.url, wrong, { allowUnencryptedPasswords: true })).toEqual({
        OPCUA_SERVER_DETAILS: 'credential-refused',
      })
    })
  })

  it.skipIf(!hasOpenssl)(
    'has a user with a certificate (needs the Debian package openssl)',
    async () => {
      const user = certificates.issue({ subjectAltName: 'URI:urn:anna', algorithm: 'rsa:2048' })
      const texts = { certificate_default: user.certificate, private_key_default: user.privateKey }
      const trusted_server_certificates = open.certificate
      expect(await read(open.url, { ...texts, trusted_server_certificates })).toMatchObject({
        OPCUA_SERVER_DETAILS: 'user',
        OPCUA_PRODUCT_NAME: 'Mixer',
      })
      expect(open.logins).toEqual([])
    },
  )

  it('leaves the server without sessions and connections', async () => {
    await read(open.url)
    await expect.poll(() => [open.sessions, open.connections]).toEqual([0, 0])
  })

  it('is not opened again too early, and a stopped server keeps its properties', async () => {
    const reader = await sessions()
    await reader.update([known(open.url)], stop.signal)
    const before = reader.of({ discoveryUrl: open.url })
    const target = async () => undefined
    const gone = await sessions({}, { targetOf: target })
    await gone.update([known(open.url)], stop.signal)
    expect(gone.of({ discoveryUrl: open.url })).toEqual({})
    await reader.update([known(open.url)], stop.signal)
    expect(reader.of({ discoveryUrl: open.url })).toEqual(before)
    await reader.update([], stop.signal)
    expect(reader.of({ discoveryUrl: open.url })).toEqual({})
  })
})

/** The answer to a wrong password, with another status code. */
function withStatus(answer: Buffer, status: number): Buffer {
  const before = Buffer.from('00001f80', 'hex')
  const at = answer.indexOf(before)
  if (at >= 0) answer.writeUInt32LE(status, at)
  return answer
}

describe('a server that misbehaves', () => {
  let server: Server
  let sockets: Set<Socket>

  beforeEach(() => {
    sockets = new Set()
  })

  afterEach(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })

  async function listen(onConnection: (socket: Socket, count: number) => void): Promise<string> {
    let count = 0
    server = createServer((socket) => {
      sockets.add(socket)
      socket.on('error', () => undefined)
      socket.on('close', () => sockets.delete(socket))
      onConnection(socket, count++)
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const address = server.address()
    return `opc.tcp://127.0.0.1:${typeof address === 'object' ? address?.port : ''}/UA/Secured`
  }

  function forward(socket: Socket, url: string): void {
    const upstream = connect(readEndpointUrl(url)?.port ?? 0, '127.0.0.1')
    upstream.on('error', () => socket.destroy())
    socket.pipe(upstream).pipe(socket)
  }

  it('and takes no users gets none, although there is a credential for all servers', async () => {
    await using endpoints = await SimulatedServer.start()
    const url = await listen((socket, count) =>
      forward(socket, count === 0 ? endpoints.url : open.url),
    )
    expect(await read(url, anna, { trustAnyServer: true })).toMatchObject({
      OPCUA_SERVER_DETAILS: 'anonymous',
      OPCUA_DEFAULT_CREDENTIAL: 'credential-not-taken',
      OPCUA_PRODUCT_NAME: 'Mixer',
    })
    expect(open.logins).toEqual([])
  })

  /** Forwards to a server; changes its answers to a user, or cuts the connection there. */
  const intercept = (url: string, change: (answer: Buffer) => Buffer | undefined) =>
    listen((socket) => {
      const upstream = connect(readEndpointUrl(url)?.port ?? 0, '127.0.0.1')
      upstream.on('error', () => socket.destroy())
      upstream.on('close', () => socket.destroy())
      socket.on('close', () => upstream.destroy())
      let hasUser = false
      socket.on('data', (bytes) => {
        hasUser ||= bytes.includes('anna')
        upstream.write(bytes)
      })
      upstream.on('data', (bytes) => {
        const changed = hasUser ? change(bytes) : bytes
        if (changed === undefined) socket.destroy()
        else socket.write(changed)
      })
    })

  it.each<[string, (answer: Buffer) => Buffer | undefined]>([
    ['BadSecurityModeInsufficient', (answer) => withStatus(answer, 0x80e6_0000)],
    ['BadIdentityChangeNotSupported', (answer) => withStatus(answer, 0x80c6_0000)],
    ['the end of the connection', () => undefined],
  ])('and refuses the credential for all by %s gets a session without it', async (_, change) => {
    const url = await intercept(weak.url, change)
    const options = { allowUnencryptedPasswords: true }
    const wrong = { ...anna, password_default: 'falsch' }
    expect(await read(url, wrong, options)).toEqual({
      OPCUA_SERVER_DETAILS: 'anonymous',
      OPCUA_DEFAULT_CREDENTIAL: 'session-refused',
      ...FACTS,
    })
    expect(logged.join()).toContain('default credential not used')
    const ownWrong = { ...own, password_urn_akri_test_secured: 'falsch' }
    expect(await read(url, ownWrong, options)).toEqual({})
    expect(logged.join()).toContain('server session failed')
  })

  it('and cuts one session keeps the user whom it accepted before', async () => {
    let isCut = false
    const url = await intercept(weak.url, (answer) => (isCut ? undefined : answer))
    const reader = await sessions(anna, { allowUnencryptedPasswords: true })
    for (isCut of [false, true]) {
      await reader.update([known(url)], stop.signal)
      expect(reader.of({ discoveryUrl: url })).toMatchObject({ OPCUA_SERVER_DETAILS: 'user' })
      await clock.advance(10 * 60_000)
    }
    expect(logged.join()).toContain('server session failed')
  })

  it('receives no clear-text password if an attacker breaks encrypted connections', async () => {
    let cut = 0
    const url = await listen((socket) => {
      const upstream = connect(readEndpointUrl(open.url)?.port ?? 0, '127.0.0.1')
      upstream.on('error', () => socket.destroy())
      upstream.pipe(socket)
      socket.on('close', () => upstream.destroy())
      socket.on('data', (bytes) => {
        // The message that opens a channel contains its policy.
        if (!bytes.includes('#Basic256Sha256')) return upstream.write(bytes)
        cut++
        return socket.resetAndDestroy()
      })
    })
    const told = { allowUnencryptedPasswords: true }
    expect(await read(url, own, { ...told, trustAnyServer: true })).toEqual({})
    expect(cut).toBe(1)
    expect(logged.join()).toContain('server session failed')
    expect(await read(url, own, told)).toEqual({ OPCUA_SERVER_DETAILS: 'certificate-not-trusted' })
    expect(await read(url, anna, { ...told, trustAnyServer: true })).toMatchObject({
      OPCUA_SERVER_DETAILS: 'anonymous',
    })
    expect(open.logins).toEqual([])
  })

  it('does not cost later servers their turn: the next round reads them', async () => {
    const url = await listen((socket) => void socket.resume())
    const silent = ['a', 'b', 'c', 'd'].map((path) => known(`${url}/${path}`))
    const reader = await sessions({}, {}, { roundMs: 5000 })
    await reader.update([...silent, known(open.url)], stop.signal)
    expect(reader.of({ discoveryUrl: open.url })).toEqual({})
    expect(logged).toHaveLength(silent.length)
    await reader.update([...silent, known(open.url)], stop.signal)
    expect(reader.of({ discoveryUrl: open.url })).toMatchObject({ OPCUA_PRODUCT_NAME: 'Mixer' })
  })

  it('is tried again later, and does not delay others', async () => {
    // The first connection reads the endpoints.
    const url = await listen((socket, count) => {
      if (count > 0) socket.resume()
      else forward(socket, open.url)
    })
    const reader = await sessions({}, {}, { sessionMs: 5000 })
    await reader.update([known(url), known(open.url)], stop.signal)
    expect(reader.of({ discoveryUrl: url })).toEqual({})
    expect(reader.of({ discoveryUrl: open.url })).toMatchObject({ OPCUA_PRODUCT_NAME: 'Mixer' })
  })
})
