import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import https from 'node:https'
import path from 'node:path'
import { systemClock } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { temporaryDirectory } from '../../test/support/temporary-directory.js'
import { ApiUnreachableError, ClusterAccessError } from './errors.js'
import { failure, get } from './testing/failure.js'
import { answerWith, FakeApiServer } from './testing/fake-api-server.js'

const api = new FakeApiServer(systemClock)
const { sockets } = api
const serve: typeof api.listen = (...args) => api.listen(...args)
const connect: typeof api.connect = (...args) => api.connect(...args)

beforeEach(() => {
  api.answer = answerWith(200, {})
})

afterEach(() => api.close())

describe('credentials', () => {
  const withToken = (token: () => string) => async () => ({ token: token() })

  it('reads the token once more when the server refuses it', async () => {
    let reads = 0
    const client = connect(
      await serve(),
      {},
      withToken(() => `token-${++reads}`),
    )
    api.answer = ({ headers }, response) =>
      response.writeHead(headers.authorization === 'Bearer token-2' ? 200 : 401).end('{}')
    expect(await get(client)).toEqual({})
    api.answer = answerWith(401, { reason: 'Unauthorized', message: 'unknown token' })
    expect(await failure(get(client))).toMatchObject({ status: 401 })
    expect(reads).toBe(3)
  })

  it('reads the token again after a minute', async () => {
    const clock = new ManualClock()
    let token = 'old'
    const client = connect(
      await serve(),
      { clock },
      withToken(() => token),
    )
    const tokens: unknown[] = []
    api.answer = ({ headers }, response) => {
      tokens.push(headers.authorization)
      response.end('{}')
    }
    await get(client)
    token = 'new'
    await clock.advance(59_999)
    await get(client)
    await clock.advance(1)
    await get(client)
    expect(tokens).toEqual(['Bearer old', 'Bearer old', 'Bearer new'])
  })

  it('shows why credentials cannot be read', async () => {
    const client = connect(await serve(), {}, async () => {
      throw new ClusterAccessError('the token cannot be read')
    })
    expect(await failure(get(client))).toMatchObject({
      message: expect.stringContaining('the token cannot be read'),
    })
  })
})

const openssl = (() => {
  try {
    return execFileSync('openssl', ['version']).length > 0
  } catch {
    return false
  }
})()

describe.skipIf(!openssl)(`TLS${openssl ? '' : ' (needs openssl)'}`, () => {
  let directory: string

  beforeEach(async () => {
    directory = await temporaryDirectory()
  })

  const file = (name: string) => path.join(directory, name)
  const pem = (name: string) => readFileSync(file(name), 'utf8')
  const run = (...args: string[]) =>
    execFileSync('openssl', args, { cwd: directory, stdio: 'pipe' })

  const newKey = (name: string) => [
    ...['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', `${name}.key`],
  ]

  function authority(name: string): void {
    const subject = ['-subj', `/CN=${name}`, '-days', '2']
    run('req', '-x509', ...newKey(name), '-out', `${name}.crt`, ...subject)
  }

  function certificate(name: string, by: string, altName = 'IP:127.0.0.1'): void {
    writeFileSync(file(`${name}.ext`), `subjectAltName=${altName}\n`)
    run('req', ...newKey(name), '-out', `${name}.csr`, '-subj', `/CN=${name}`)
    run(
      'x509',
      '-req',
      '-in',
      `${name}.csr`,
      '-CA',
      `${by}.crt`,
      '-CAkey',
      `${by}.key`,
      '-CAcreateserial',
      '-out',
      `${name}.crt`,
      '-days',
      '2',
      '-extfile',
      `${name}.ext`,
    )
  }

  it('trusts only the authority of the server, also after a change', async () => {
    const clock = new ManualClock()
    authority('one')
    authority('two')
    certificate('server', 'one')
    const server = https.createServer({ cert: pem('server.crt'), key: pem('server.key') })
    let ca = 'one.crt'
    const client = connect(await serve(server), { clock }, async () => ({ ca: pem(ca) }))
    await get(client)
    await get(client)
    expect(sockets).toHaveLength(1)

    ca = 'two.crt'
    await clock.advance(60_000)
    expect(await failure(get(client))).toBeInstanceOf(ApiUnreachableError)

    certificate('server2', 'two')
    server.setSecureContext({ cert: pem('server2.crt'), key: pem('server2.key') })
    expect(await get(client)).toEqual({})
  })

  it('refuses a certificate of another name, unless expected or not verified', async () => {
    authority('one')
    certificate('server', 'one', 'DNS:kubernetes.example')
    const url = await serve(https.createServer({ cert: pem('server.crt'), key: pem('server.key') }))
    const ca = pem('one.crt')
    expect(String(await failure(get(connect(url, {}, async () => ({ ca })))))).toMatch(/altnames/i)
    expect(
      await get(connect(url, {}, async () => ({ ca, serverName: 'kubernetes.example' }))),
    ).toEqual({})
    expect(await get(connect(url, {}, async () => ({ verify: false })))).toEqual({})
  })

  it('presents its client certificate', async () => {
    authority('one')
    certificate('server', 'one')
    certificate('client', 'one')
    const server = https.createServer({
      cert: pem('server.crt'),
      key: pem('server.key'),
      ca: pem('one.crt'),
      requestCert: true,
      rejectUnauthorized: true,
    })
    const url = await serve(server)
    const ca = pem('one.crt')
    expect(
      await get(
        connect(url, {}, async () => ({ ca, cert: pem('client.crt'), key: pem('client.key') })),
      ),
    ).toEqual({})
    expect(await failure(get(connect(url, {}, async () => ({ ca }))))).toBeInstanceOf(
      ApiUnreachableError,
    )
  })
})
