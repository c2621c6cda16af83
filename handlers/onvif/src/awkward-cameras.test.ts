import { randomUUID } from 'node:crypto'
import { once, setMaxListeners } from 'node:events'
import { createServer } from 'node:net'
import { deflateRawSync } from 'node:zlib'
import { DiscoveryProperties, silentLogger } from '@akrijs/sdk'
import { followDiscovery, type ReportedList } from '@akrijs/sdk/host'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { alone } from '../../../test/support/alone.js'
import { issueAuthority } from '../../../webhook/src/certificates/x509.js'
import { createOnvifHandler } from './index.js'
import {
  type Credential,
  type DiscoveryFaults,
  type Misbehaviour,
  SimulatedCamera,
  type SimulatedCameraOptions,
} from './testing/index.js'

// Cameras as they are found in the field, all on one network: the handler offers each of them, or
// tells why not. Sources: WS-Discovery (April 2005), ONVIF Core Specification, RFC 9112, RFC 7616.

alone()

interface Awkward {
  readonly name: string
  readonly options?: (to: Place) => SimulatedCameraOptions
  readonly faults?: DiscoveryFaults
  readonly misbehave?: readonly [how: Misbehaviour, operations?: readonly string[]]
  /** The credential that the handler has for the camera. */
  readonly as?: Credential
  /** Sends a Hello after it is started. */
  readonly hello?: boolean
  /**
   * `offered`, or with the value of ONVIF_DEVICE_AUTHENTICATION; the reason why it is left out;
   * `ignored`: its announcement is not that of a camera.
   */
  readonly expected: string
}

/** What a camera needs to know before it is started. */
interface Place {
  readonly address: string
  /** A port of that address on which nothing listens. */
  readonly closedPort: number
  /** A port for the camera. */
  readonly port: number
}

const credential = { username: 'admin', password: 'correct horse' }
const wrong = { ...credential, password: 'hunter2' }
const isClosed = { credential, openOperations: [] } as const
const DEVICE = '/onvif/device_service'

/** A URL of the camera. */
const at = ({ address, port }: Place, path = DEVICE) => `http://${address}:${port}${path}`
const announcing =
  (...xAddrs: readonly ((to: Place) => string)[]) =>
  (to: Place) => ({ port: to.port, xAddrs: xAddrs.map((xAddr) => xAddr(to)) })
/** Replaces a part of a correct reply, and sends it with status 200. */
const replacing = (part: string | RegExp, by: string): Misbehaviour => ({
  answer: (response, correct) =>
    response
      .writeHead(200, { 'content-type': 'application/soap+xml' })
      .end(correct.replace(part, by)),
})
/** The text with a word of another encoding than UTF-8, by default one of GB2312. */
const inSingleBytes = (text: string, before: string, word = '\xb1\xb1\xbe\xa9') =>
  Buffer.from(text.replace(before, ` onvif://www.onvif.org/name/${word}${before}`), 'latin1')
const page = (status: number): Misbehaviour => ({
  answer: (response) => response.writeHead(status, { 'content-type': 'text/html' }).end('<p>no'),
})
const raw = (head: string): Misbehaviour => ({
  answer: ({ socket }, correct) => socket?.end(`${head}\r\n\r\n${correct}`),
})

const DISCOVERY: readonly Awkward[] = [
  {
    name: 'tells its URL in a ResolveMatch only',
    faults: { withoutUrls: true },
    expected: 'offered none',
  },
  { name: 'tells its URL nowhere', options: () => ({ xAddrs: [] }), expected: 'no URL announced' },
  { name: 'ends its answer by zeros', faults: { tail: '\0\0\0' }, expected: 'offered none' },
  {
    name: 'ends its answer by a zero and a line',
    faults: { tail: '\0\r\n' },
    expected: 'offered none',
  },
  {
    name: 'begins its answer by white space',
    faults: { rewrite: (text) => `\r\n \t${text}` },
    expected: 'offered none',
  },
  {
    name: 'begins its answer by a byte order mark',
    faults: { rewrite: (text) => `\ufeff${text}` },
    expected: 'offered none',
  },
  {
    name: 'declares UTF-16 in an answer that is UTF-8',
    faults: { rewrite: (text) => text.replace('encoding="UTF-8"', 'encoding="utf-16"') },
    expected: 'offered none',
  },
  {
    name: 'declares UTF-8, and writes a scope in GB2312',
    faults: { rewrite: (text) => inSingleBytes(text, '</d:Scopes>') },
    expected: 'offered none',
  },
  {
    name: 'declares no encoding, and writes a scope in Latin-1',
    faults: {
      rewrite: (text) => inSingleBytes(text.replace(/<\?xml[^>]*>/, ''), '</d:Scopes>', 'caf\xe9'),
    },
    expected: 'offered none',
  },
  {
    name: 'writes its UUID in upper case',
    faults: {
      rewrite: (text) =>
        text.replace(
          /urn:uuid:[\w-]+(?=<\/a:Address>)/,
          (id) => `urn:uuid:${id.slice(9).toUpperCase()}`,
        ),
    },
    expected: 'offered none',
  },
  {
    name: 'writes its UUID as uuid:',
    faults: { rewrite: (text) => text.replace('<a:Address>urn:', '<a:Address>') },
    expected: 'offered none',
  },
  {
    name: 'writes a bare UUID on a line of its own',
    faults: {
      rewrite: (text) =>
        text
          .replace('<a:Address>urn:uuid:', '<a:Address>\n  ')
          .replace('</a:Address>', '\n</a:Address>'),
    },
    expected: 'offered none',
  },
  {
    name: 'declares no prefix of its types',
    options: () => ({ types: ['wsdn:NetworkVideoTransmitter'] }),
    expected: 'offered none',
  },
  {
    name: 'announces the type of a device alone',
    options: () => ({ types: ['tds:Device'] }),
    expected: 'offered none',
  },
  {
    name: 'announces no type, and scopes of ONVIF',
    options: () => ({ types: [] }),
    expected: 'offered none',
  },
  {
    name: 'announces no scopes',
    options: () => ({ identity: { scopes: [] } }),
    expected: 'offered none',
  },
  {
    name: 'is a printer with WS-Discovery',
    options: () => ({
      types: ['wprt:PrintDeviceType'],
      identity: { scopes: ['ldap:///ou=office'] },
    }),
    expected: 'ignored',
  },
  { name: 'announces scopes of 14 KB', faults: { huge: true }, expected: 'offered none' },
  { name: 'sends half an answer', faults: { garbage: true }, expected: 'answer not readable' },
  {
    name: 'answers a Probe that nothing sent',
    faults: { wrongRelatesTo: true },
    expected: 'answer not readable',
  },
  {
    name: 'answers without RelatesTo',
    faults: { rewrite: (text) => text.replace(/<a:RelatesTo.*<\/a:RelatesTo>/, '') },
    expected: 'answer not readable',
  },
  {
    name: 'answers without an endpoint reference',
    faults: {
      rewrite: (text) => text.replace(/<a:EndpointReference>.*<\/a:EndpointReference>/, ''),
    },
    expected: 'answer not readable',
  },
  {
    name: 'announces no version of its metadata',
    faults: { rewrite: (text) => text.replace(/<d:MetadataVersion>.*<\/d:MetadataVersion>/, '') },
    expected: 'offered none',
  },
  {
    name: 'announces a version that is no number',
    faults: { rewrite: (text) => text.replace(/(<d:MetadataVersion>)[^<]*/, '$1now') },
    expected: 'offered none',
  },
  {
    name: 'answers no Probe, and sends a Hello',
    faults: { silent: true },
    hello: true,
    expected: 'offered none',
  },
]

const ADDRESSES: readonly Awkward[] = [
  {
    name: 'announces a closed port before its port',
    options: announcing((to) => `http://${to.address}:${to.closedPort}/`, at),
    expected: 'offered none',
  },
  {
    name: 'announces a closed port only',
    options: announcing((to) => `http://${to.address}:${to.closedPort}/`),
    expected: 'connection refused',
  },
  {
    name: 'announces the address of another network',
    options: announcing(() => 'http://192.168.1.10/onvif/device_service'),
    expected: 'address not allowed',
  },
  {
    name: 'announces the address of another network and its own',
    options: announcing(() => 'http://192.168.1.10/', at),
    expected: 'offered none',
  },
  {
    name: 'announces the metadata service of a cloud',
    options: announcing(() => 'http://169.254.169.254/latest/'),
    expected: 'address not allowed',
  },
  {
    name: 'announces a stream only',
    options: announcing((to) => `rtsp://${to.address}/main`),
    expected: 'address not allowed',
  },
  {
    name: 'announces a stream and its service',
    options: announcing((to) => `rtsp://${to.address}/main`, at),
    expected: 'offered none',
  },
  {
    name: 'announces a password in its URL',
    options: announcing((to) => `http://admin:admin@${to.address}:${to.port}${DEVICE}`),
    expected: 'address not allowed',
  },
  {
    name: 'announces what is no URL',
    options: announcing(() => 'http://[camera'),
    expected: 'address not allowed',
  },
  {
    name: 'separates its URLs by tabs and lines',
    options: announcing((to) => `http://${to.address}:${to.closedPort}/`, at),
    faults: { rewrite: (text) => text.replace(/(<d:XAddrs>\S+) /, '$1\t\r\n  ') },
    expected: 'offered none',
  },
  {
    name: 'announces nine URLs, of which the last one answers',
    options: announcing(
      ...Array.from(
        { length: 8 },
        (_, n) => (to: Place) => `http://${to.address}:${to.closedPort}/${n}`,
      ),
      at,
    ),
    expected: 'connection refused',
  },
  {
    name: 'has another path than other cameras',
    options: announcing((to) => at(to, '/onvif/Device?x=1&y=2')),
    expected: 'offered none',
  },
  {
    name: 'has https with its own certificate',
    options: () => ({
      tls: issueAuthority('camera', {
        notBefore: new Date(Date.now() - 3_600_000),
        notAfter: new Date(Date.now() + 3_600_000),
      }),
    }),
    expected: 'offered none',
  },
]

const HTTP: readonly Awkward[] = [
  { name: 'ends lines without CR', misbehave: ['naive-http'], expected: 'offered none' },
  {
    name: 'answers by HTTP/1.0 without a length',
    misbehave: [raw('HTTP/1.0 200 OK')],
    expected: 'offered none',
  },
  { name: 'writes its length twice', misbehave: ['two-lengths'], expected: 'offered none' },
  {
    name: 'writes two different lengths',
    misbehave: ['two-different-lengths'],
    expected: 'not reachable',
  },
  { name: 'sends more than its length', misbehave: ['junk-after'], expected: 'offered none' },
  {
    name: 'sends no Content-Type',
    misbehave: [raw('HTTP/1.1 200 OK\r\nConnection: close')],
    expected: 'offered none',
  },
  { name: 'compresses without being asked', misbehave: ['gzip'], expected: 'offered none' },
  { name: 'compresses and does not say so', misbehave: ['unnamed-gzip'], expected: 'offered none' },
  {
    name: 'sends half of a compressed answer',
    misbehave: ['half-a-gzip'],
    expected: 'no answer of a camera',
  },
  {
    name: 'sends megabytes in kilobytes',
    misbehave: ['gzip-bomb'],
    expected: 'no answer of a camera',
  },
  {
    name: 'compresses by deflate without the header of zlib',
    misbehave: [
      {
        answer: (response, correct) =>
          response.writeHead(200, { 'content-encoding': 'deflate' }).end(deflateRawSync(correct)),
      },
    ],
    expected: 'offered none',
  },
  { name: 'compresses by brotli', misbehave: ['brotli'], expected: 'no answer of a camera' },
  { name: 'answers in several parts', misbehave: ['multipart'], expected: 'offered none' },
  {
    name: 'answers in parts without a boundary',
    misbehave: ['multipart-without-boundary'],
    expected: 'no answer of a camera',
  },
  {
    name: 'answers in parts without the root',
    misbehave: ['multipart-without-root'],
    expected: 'no answer of a camera',
  },
  {
    name: 'closes each connection',
    misbehave: ['closed-connection'],
    expected: 'connection closed',
  },
  {
    name: 'closes the connection in a reply',
    misbehave: ['half-a-reply'],
    expected: 'connection closed',
  },
  { name: 'never answers', misbehave: ['silence'], expected: 'no answer in time' },
  { name: 'sends hints without end', misbehave: ['endless-hope'], expected: 'no answer in time' },
  { name: 'sends a body without end', misbehave: ['endless-body'], expected: 'not reachable' },
  { name: 'sends headers without end', misbehave: ['endless-headers'], expected: 'not reachable' },
  { name: 'speaks FTP', misbehave: ['no-http'], expected: 'not reachable' },
  { name: 'switches the protocol', misbehave: ['other-protocol'], expected: 'not reachable' },
  {
    name: 'redirects',
    misbehave: [{ redirect: 'http://127.0.0.1/' }],
    expected: 'HTTP status 307',
  },
  { name: 'answers by a page', misbehave: ['html'], expected: 'no answer of a camera' },
  { name: 'does not have the page', misbehave: [page(404)], expected: 'HTTP status 404' },
  { name: 'forbids each call', misbehave: [page(403)], expected: 'HTTP status 403' },
  { name: 'is busy', misbehave: [page(503)], expected: 'HTTP status 503' },
]

const XML: readonly Awkward[] = [
  { name: 'answers by nothing', misbehave: ['empty'], expected: 'no answer of a camera' },
  {
    name: 'begins its reply by lines',
    misbehave: ['white-space-before'],
    expected: 'offered none',
  },
  { name: 'ends its reply by zeros', misbehave: ['zeros-after'], expected: 'offered none' },
  { name: 'writes Latin-1, as its XML says', misbehave: ['latin-1'], expected: 'offered none' },
  {
    name: 'writes Latin-1, as only its header says',
    misbehave: ['charset-in-header'],
    expected: 'offered none',
  },
  {
    name: 'declares UTF-16 in a reply that is UTF-8',
    misbehave: [replacing('UTF-8', 'utf-16')],
    expected: 'offered none',
  },
  {
    name: 'declares UTF-8 in a reply with GB2312',
    misbehave: [
      { answer: (response, correct) => response.end(inSingleBytes(correct, '</SOAP-ENV:Body>')) },
    ],
    expected: 'offered none',
  },
  {
    name: 'names an unknown encoding',
    misbehave: ['unknown-charset'],
    expected: 'no answer of a camera',
  },
  { name: 'forgets an end tag', misbehave: ['broken-xml'], expected: 'no answer of a camera' },
  {
    name: 'sends entities in entities',
    misbehave: ['entity-bomb'],
    expected: 'no answer of a camera',
  },
  { name: 'nests 3,000 elements', misbehave: ['deep-xml'], expected: 'no answer of a camera' },
  {
    name: 'sends 50,000 elements',
    misbehave: ['many-elements'],
    expected: 'no answer of a camera',
  },
  { name: 'speaks SOAP 1.1', misbehave: ['soap-1.1'], expected: 'offered none' },
  { name: 'has other prefixes', misbehave: ['other-prefixes'], expected: 'offered none' },
  { name: 'declares no prefixes', misbehave: ['undeclared-prefixes'], expected: 'offered none' },
  {
    name: 'answers another question',
    misbehave: ['other-response'],
    expected: 'no answer of a camera',
  },
  { name: 'fails at each question', misbehave: ['server-error'], expected: 'HTTP status 500' },
  { name: 'has a fault for each question', misbehave: ['fault'], expected: 'offered none' },
]

const ONVIF: readonly Awkward[] = [
  {
    name: 'lacks its clock',
    misbehave: ['fault', ['GetSystemDateAndTime']],
    expected: 'offered none',
  },
  {
    name: 'tells the local time only',
    options: () => ({
      ...isClosed,
      openOperations: ['GetSystemDateAndTime'],
      authentication: ['username-token'],
      clockOffsetMs: -86_400_000,
    }),
    misbehave: [replacing(/UTCDateTime/g, 'LocalDateTime'), ['GetSystemDateAndTime']],
    as: credential,
    expected: 'offered accepted',
  },
  {
    name: 'has a clock that is 20 years behind',
    options: () => ({
      credential,
      authentication: ['username-token'],
      clockOffsetMs: -20 * 365 * 86_400_000,
    }),
    as: credential,
    expected: 'offered accepted',
  },
  {
    name: 'wants a credential for its clock too',
    options: () => ({ ...isClosed, authentication: ['username-token'] }),
    as: credential,
    expected: 'offered accepted',
  },
  {
    name: 'wants a credential for its clock too, which is 20 years behind',
    options: () => ({
      ...isClosed,
      authentication: ['username-token'],
      clockOffsetMs: -20 * 365 * 86_400_000,
    }),
    as: credential,
    expected: 'offered accepted',
  },
  {
    name: 'wants a digest for each call',
    options: () => ({ ...isClosed, authentication: ['http-digest'] }),
    as: credential,
    expected: 'offered accepted',
  },
  {
    name: 'wants a digest for each call, and there is no credential',
    options: () => ({ ...isClosed, authentication: ['http-digest'] }),
    expected: 'HTTP status 401',
  },
  {
    name: 'wants a digest for each call, and the password is wrong',
    options: () => ({ ...isClosed, authentication: ['http-digest'] }),
    as: wrong,
    expected: 'credential refused',
  },
  {
    name: 'wants the basic scheme',
    misbehave: ['basic-challenge'],
    as: credential,
    expected: 'credential refused',
  },
  {
    name: 'takes MD5 only, and each nonce once',
    options: () => ({
      credential,
      authentication: ['http-digest'],
      algorithms: ['MD5'],
      nonceUses: 1,
    }),
    as: credential,
    expected: 'offered accepted',
  },
  {
    name: 'wants a credential by a fault, and there is none',
    options: () => ({ ...isClosed, authentication: ['username-token'] }),
    expected: 'offered required',
  },
  {
    name: 'wants a credential by a fault of SOAP 1.1',
    misbehave: ['fault-of-soap-1.1'],
    expected: 'offered required',
  },
  {
    name: 'refuses a password by a fault',
    options: () => ({ credential, authentication: ['username-token'] }),
    as: wrong,
    expected: 'offered refused',
  },
  {
    name: 'refuses a password by 401 with another fault',
    options: () => ({
      credential,
      authentication: ['username-token'],
      refusal: { status: 401, subcode: 'InvalidArgVal' },
    }),
    as: wrong,
    expected: 'offered refused',
  },
  {
    name: 'refuses a password by 400 with a bare fault',
    options: () => ({ credential, authentication: ['username-token'], refusal: { status: 400 } }),
    as: wrong,
    expected: 'offered refused',
  },
  {
    name: 'refuses a password by 403',
    options: () => ({
      credential,
      authentication: ['username-token'],
      refusal: { status: 403, subcode: 'OperationProhibited' },
    }),
    as: wrong,
    expected: 'offered refused',
  },
  {
    name: 'has no time for a call with a credential yet',
    options: () => ({ credential }),
    misbehave: [page(503), ['GetDeviceInformation']],
    as: credential,
    expected: 'offered none',
  },
  {
    name: 'wants a digest for each call, and has no time for it yet',
    options: () => ({ ...isClosed, authentication: ['http-digest'] }),
    misbehave: [page(503)],
    as: credential,
    expected: 'busy',
  },
  {
    name: 'asks for a new digest without end',
    options: () => ({ credential, authentication: ['http-digest'] }),
    misbehave: ['endless-challenge', ['GetDeviceInformation']],
    as: credential,
    expected: 'offered refused',
  },
  {
    name: 'has a password that ends in a line break in its Secret',
    options: () => ({ credential }),
    as: { ...credential, password: `${credential.password}\n` },
    expected: 'offered accepted',
  },
  {
    name: 'is older than GetServices',
    options: () => ({ hasGetServices: false }),
    expected: 'offered none',
  },
  {
    name: 'fails to tell what it is',
    misbehave: ['server-error', ['GetDeviceInformation']],
    expected: 'offered none',
  },
  {
    name: 'fails to tell its network',
    misbehave: ['closed-connection', ['GetNetworkInterfaces']],
    expected: 'offered none',
  },
  {
    name: 'tells control characters and lines',
    options: () => ({ identity: { model: 'x\n\u202e'.repeat(500), serialNumber: '' } }),
    expected: 'offered none',
  },
]

const ALL = [...DISCOVERY, ...ADDRESSES, ...HTTP, ...XML, ...ONVIF]

/** What became of each camera, by name. */
const results = new Map<string, string>()
const cameras = new Map<Awkward, SimulatedCamera>()
const stop = new AbortController()

async function start(awkward: Awkward, index: number): Promise<SimulatedCamera> {
  const address = `127.77.${10 + Math.floor(index / 200)}.${1 + (index % 200)}`
  const [closedPort, port] = [await unusedPort(address), await unusedPort(address)]
  const options = awkward.options?.({ address, closedPort, port })
  const camera = await SimulatedCamera.start({ uuid: randomUUID(), address, ...options })
  Object.assign(camera.faults, { delayMs: 10 * (index % 50), ...awkward.faults })
  if (awkward.misbehave !== undefined) camera.service.misbehave(...awkward.misbehave)
  cameras.set(awkward, camera)
  return camera
}

async function unusedPort(address: string): Promise<number> {
  const server = createServer().listen(0, address)
  await once(server, 'listening')
  const place = server.address()
  server.close()
  await once(server, 'close')
  return typeof place === 'object' && place !== null ? place.port : expect.fail('no port')
}

function resultOf(
  { uuid, service }: SimulatedCamera,
  { devices, leftOut, problems }: ReportedList,
): string {
  const device = devices.find(({ properties }) => properties.ONVIF_DEVICE_UUID === uuid)
  // An answer that cannot be read has no UUID.
  const names = (id: string) => id.startsWith(uuid) || id === new URL(service.url).hostname
  if (device === undefined) return leftOut.devices.find(({ id }) => names(id))?.reason ?? 'ignored'
  const authentication = device.properties.ONVIF_DEVICE_AUTHENTICATION
  const isProblem = problems.devices.some(({ id }) => id === device.id)
  const isRight = isProblem === (authentication === 'refused')
  return `offered ${authentication}${isRight ? '' : ' wrongly'}`
}

/** All discoveries of this file are one: a round of the handler with all cameras. */
beforeAll(async () => {
  setMaxListeners(0, stop.signal)
  for (const [index, awkward] of ALL.entries()) await start(awkward, index)
  const properties: Record<string, string> = {}
  for (const [{ as }, { uuid }] of cameras) {
    const name = uuid.replaceAll('-', '_')
    if (as !== undefined) properties[`username_${name}`] = as.username
    if (as !== undefined) properties[`password_${name}`] = as.password
  }
  const lists = followDiscovery(createOnvifHandler({ intervalMs: 2000 }), {
    details: JSON.stringify({
      interfaces: ['lo'],
      uuids: { items: [...cameras.values()].map(({ uuid }) => uuid) },
      discoveryTimeoutSeconds: 2,
    }),
    properties: DiscoveryProperties.fromTexts(properties),
    signal: stop.signal,
    log: silentLogger,
  })
  const deadline = setTimeout(() => stop.abort(), 240_000)
  for await (const list of lists) {
    for (const [awkward, camera] of cameras) results.set(awkward.name, resultOf(camera, list))
    for (const [{ hello }, camera] of cameras) if (hello) await camera.hello()
    const isProbed = [...cameras.values()].every(({ probes }) => probes > 0)
    const isDone = ALL.every(({ name, expected }) => results.get(name) === expected)
    if (isProbed && isDone) break
  }
  clearTimeout(deadline)
}, 280_000)

afterAll(async () => {
  stop.abort()
  await Promise.all([...cameras.values()].map((camera) => camera.close()))
})

it('are 60 cameras at least', () => {
  expect(new Set(ALL.map(({ name }) => name)).size).toBe(ALL.length)
  expect(ALL.length).toBeGreaterThanOrEqual(60)
})

describe.each([
  ['WS-Discovery', DISCOVERY],
  ['addresses', ADDRESSES],
  ['HTTP', HTTP],
  ['XML and SOAP', XML],
  ['ONVIF', ONVIF],
])('D2 a camera with awkward %s', (_what, awkward) => {
  it.each(awkward.map(({ name, expected }) => [name, expected]))('%s: %s', (name, expected) => {
    expect(results.get(name)).toBe(expected)
  })
})
