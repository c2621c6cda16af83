import https from 'node:https'
import net from 'node:net'
import tls from 'node:tls'
import { BUNDLED_TYPES } from '@akrijs/api'
import { type Logger, silentLogger, systemClock } from '@akrijs/runtime'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { fuzz } from '../../test/support/fuzz.js'
import { issueAuthority, issueServerCertificate } from './certificates/x509.js'
import { Reviewer } from './review/reviewer.js'
import { WebhookServer } from './webhook-server.js'

const validity = {
  notBefore: new Date(Date.now() - 60_000),
  notAfter: new Date(Date.now() + 3_600_000),
}
const authority = await issueAuthority('test', validity)
const keyPair = await issueServerCertificate(['localhost'], validity, authority)

let server: WebhookServer
let errors: unknown[]

beforeEach(async () => {
  errors = []
  const log: Logger = { ...silentLogger, error: (fields) => errors.push(fields) }
  const reviewer = new Reviewer({
    types: () => BUNDLED_TYPES,
    handlers: new Map(),
    names: { problems: async () => [] },
    failurePolicy: 'Fail',
    clock: systemClock,
    log,
  })
  server = await WebhookServer.open({
    port: 0,
    host: '127.0.0.1',
    keyPair,
    review: (request) => reviewer.review(request),
    clock: systemClock,
    log,
  })
})

afterEach(() => server.close())

const ca = authority.cert

/** The status of the answer to a review. The address is another one than that of the fuzz. */
function ask(body: string, localAddress = '127.0.0.1'): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const target = {
      host: '127.0.0.1',
      port: server.port,
      path: '/validate',
      servername: 'localhost',
    }
    const call = https.request(
      { ...target, ca, localAddress, method: 'POST', agent: false },
      (response) => response.resume().on('end', () => resolve(response.statusCode)),
    )
    call.on('error', reject)
    call.end(body)
  })
}

const good = JSON.stringify({
  kind: 'AdmissionReview',
  request: {
    uid: 'u',
    operation: 'CREATE',
    object: {
      apiVersion: 'akri.sh/v0',
      kind: 'Configuration',
      metadata: { name: 'a', namespace: 'b' },
      spec: { discoveryHandler: { name: 'x' } },
    },
  },
})

/** Sends bytes, and ends: within TLS or without. */
function send(bytes: Buffer, secure: boolean, localAddress: string): Promise<void> {
  return new Promise((resolve) => {
    const raw = net.connect({ host: '127.0.0.1', port: server.port, localAddress })
    const socket = secure ? tls.connect({ socket: raw, servername: 'localhost', ca }) : raw
    for (const each of [raw, socket]) each.on('error', () => resolve())
    raw.on('close', () => resolve())
    socket.once(secure ? 'secureConnect' : 'connect', () => {
      socket.resume().end(bytes)
    })
  })
}

const line = fc.constantFrom(
  'POST /validate HTTP/1.1',
  'GET /validate HTTP/1.0',
  'POST http://a/validate HTTP/1.1',
  'CONNECT a:1 HTTP/1.1',
  'PRI * HTTP/2.0',
  'host: a',
  'content-length: 5',
  'content-length: -1',
  'content-length: 99999999999999999999',
  'transfer-encoding: chunked',
  'transfer-encoding: gzip, chunked',
  'expect: 100-continue',
  'connection: upgrade',
  'upgrade: websocket',
  '',
  '5',
  'fffffffffffffffff',
  '{"a"}',
)
const bytes = fc.oneof(
  fc
    .array(fc.oneof({ weight: 5, arbitrary: line }, fc.string()), { maxLength: 12 })
    .map((lines) => Buffer.from(lines.map((each) => `${each}\r\n`).join(''))),
  fc.uint8Array({ maxLength: 200 }).map((array) => Buffer.from(array)),
)

const value = fc.oneof(fc.jsonValue({ maxDepth: 4 }), fc.constant(JSON.parse(good).request.object))

describe('the webhook under fuzz', () => {
  const raw = fuzz({ runs: 60, msPerRun: 100 })
  it(
    'answers others after any bytes, within TLS and without',
    async () => {
      let count = 0
      await fc.assert(
        fc.asyncProperty(bytes, fc.boolean(), async (sent, secure) => {
          await send(sent, secure, `127.0.0.${2 + (count++ % 200)}`)
        }),
        raw.parameters,
      )
      expect(await ask(good)).toBe(200)
      expect(errors).toEqual([])
    },
    raw.timeoutMs,
  )

  const reviews = fuzz({ runs: 60, msPerRun: 100 })
  it(
    'answers any AdmissionReview, without an error in the log',
    async () => {
      let count = 0
      await fc.assert(
        fc.asyncProperty(value, value, fc.string(), async (object, oldObject, operation) => {
          const request = { uid: 'u', operation, object, oldObject }
          const body = JSON.stringify({ kind: 'AdmissionReview', request })
          expect(await ask(body, `127.0.0.${2 + (count++ % 200)}`)).toBe(200)
        }),
        reviews.parameters,
      )
      expect(errors).toEqual([])
    },
    reviews.timeoutMs,
  )
})
