import { execFileSync, spawnSync } from 'node:child_process'
import { getEventListeners } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { DiscoveryProperties, readNetwork, silentLogger } from '@akrijs/sdk'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { cameraCredentials } from '../credentials.js'
import { NetworkPolicy } from '../network-policy.js'
import { DeviceService, type DeviceServiceOptions } from '../testing/device-service.js'
import { type CameraOptions, type CameraRequest, readCamera } from './camera.js'

const UUID = '5f5a69c2-e0ae-504f-829b-00fcdab169cc'
const credential = { username: 'operator', password: 'correct horse' }
const wrong = { username: 'operator', password: 'hunter2' }

function policy(...networks: string[]): NetworkPolicy {
  return new NetworkPolicy(networks.map((text) => readNetwork(text) ?? expect.fail(`${text} is not a network`)))
}

interface Asked extends Partial<Omit<CameraRequest, 'options'>> {
  readonly as?: { readonly username: string; readonly password: string }
  readonly options?: Partial<CameraOptions>
}

function ask(url: string, { as, options, ...more }: Asked = {}) {
  const properties = as ? { username_default: as.username, password_default: as.password } : {}
  return readCamera({
    url,
    uuid: UUID,
    credentials: cameraCredentials(DiscoveryProperties.fromTexts(properties), silentLogger),
    options: { policy: policy('127.0.0.0/8', '::1'), ...options },
    signal: new AbortController().signal,
    log: silentLogger,
    ...more,
  })
}

const INFORMATION = {
  manufacturer: 'Akri',
  model: 'Simulated camera',
  firmware: '1.10',
  serialNumber: '00000000000000000001',
  hardwareId: 'simulated',
}
const NETWORK = { ipAddress: '127.0.0.1', macAddress: '02:00:00:00:00:01' }

/** Nothing of what the camera got must give the password away. */
function expectNoPassword({ requests }: DeviceService, { username, password }: { username: string; password: string }) {
  const sent = JSON.stringify(requests)
  for (const secret of [
    password,
    Buffer.from(password).toString('base64'),
    Buffer.from(`${username}:${password}`).toString('base64'),
  ]) {
    expect(sent).not.toContain(secret)
  }
}

describe('a camera', () => {
  it('tells what it is, in one request for each thing', async () => {
    await using camera = await DeviceService.start()
    const facts = await ask(camera.url)
    expect(facts).toEqual({
      authentication: 'none',
      ...INFORMATION,
      ...NETWORK,
      scopes: [
        'onvif://www.onvif.org/name/simulated',
        'onvif://www.onvif.org/location/laboratory',
        'onvif://www.onvif.org/hardware/simulated',
      ],
    })
    expect(camera.requests.map(({ operation }) => operation)).toEqual([
      'GetSystemDateAndTime',
      'GetDeviceInformation',
      'GetNetworkInterfaces',
      'GetScopes',
    ])
  })

  it('D2 may have an IPv6 address', async () => {
    await using camera = await DeviceService.start({ address: '::1' })
    expect(new URL(camera.url).hostname).toBe('[::1]')
    expect(await ask(camera.url)).toMatchObject({ ...INFORMATION, ipAddress: '192.0.2.1' })
    expect(camera.requests[0]?.headers.host).toBe(`[::1]:${camera.port}`)
  })

  const local = Object.entries(os.networkInterfaces()).flatMap(([zone, addresses]) =>
    (addresses ?? []).filter(({ address }) => address.startsWith('fe80:')).map(({ address }) => ({ zone, address })),
  )[0]

  it.skipIf(local === undefined)('D2 may have a link-local address (needs an interface with one)', async () => {
    const { zone = '', address = '' } = local ?? {}
    await using camera = await DeviceService.start({ address, zone })
    const options = { policy: policy('fe80::/10') }
    expect(await ask(camera.url, { zone, options })).toMatchObject(INFORMATION)
    expect(camera.requests[0]?.headers.host).toBe(`[${address}]:${camera.port}`)
  })

  it('may have a host name', async () => {
    await using camera = await DeviceService.start()
    const options = {
      policy: new NetworkPolicy([{ address: '127.0.0.0', prefix: 8, family: 'ipv4' }], { resolve: async () => ['127.0.0.1'] }),
    }
    expect(await ask(`http://camera.example:${camera.port}/onvif/device_service`, { options })).toMatchObject(INFORMATION)
    expect(camera.requests[0]?.headers.host).toBe(`camera.example:${camera.port}`)
  })

  it('tells texts as they are: no numbers, on one line, and not without end', async () => {
    const identity = { serialNumber: '12345678901234567890', firmware: ' 1.\n10\u202e ', model: 'é'.repeat(1000), hardwareId: '' }
    await using camera = await DeviceService.start({ identity })
    const { serialNumber, firmware, model, hardwareId } = await ask(camera.url)
    expect([serialNumber, firmware, model?.length, hardwareId]).toEqual(['12345678901234567890', '1. 10', 257, undefined])
  })

  it.each([
    ['by UsernameToken', { authentication: ['username-token'] }, 4],
    ['by HTTP digest', { authentication: ['http-digest'] }, 5],
    ['by HTTP digest with MD5', { authentication: ['http-digest'], algorithms: ['MD5'] }, 5],
    ['by HTTP digest where each nonce is good for one request', { authentication: ['http-digest'], nonceUses: 1 }, 7],
    ['by either', {}, 4],
    ['with a clock that is behind by years', { clockOffsetMs: -20 * 365 * 86_400_000 }, 4],
    ['with a clock that is ahead', { clockOffsetMs: 3_600_000, authentication: ['username-token'] }, 4],
  ] satisfies [string, Partial<DeviceServiceOptions>, number][])(
    'wants to know who asks: %s',
    async (_how, options, requests) => {
      await using camera = await DeviceService.start({ credential, ...options })
      expect(await ask(camera.url, { as: credential })).toMatchObject({ authentication: 'accepted', ...INFORMATION, ...NETWORK })
      expect(camera.requests.length).toBe(requests)
      expectNoPassword(camera, credential)
    },
  )

  it.each([
    ['with markup', { username: 'a<b>&"c\'', password: '<&>"' }],
    ['of other scripts', { username: '操作员 é', password: 'пароль' }],
    ['with an empty password', { username: 'operator', password: '' }],
  ])('knows user names and passwords %s', async (_what, as) => {
    for (const authentication of ['username-token', 'http-digest'] as const) {
      await using camera = await DeviceService.start({ credential: as, authentication: [authentication] })
      expect(await ask(camera.url, { as })).toMatchObject({ authentication: 'accepted', ...INFORMATION })
    }
  })

  it('that wants a credential says so, and gives what it gives', async () => {
    for (const authentication of ['username-token', 'http-digest'] as const) {
      await using camera = await DeviceService.start({ credential, authentication: [authentication] })
      expect(await ask(camera.url)).toEqual({ authentication: 'required' })
      expect(await ask(camera.url, { options: { mediaProfiles: true } })).toEqual({ authentication: 'required' })
    }
  })

  it('that refuses a credential is asked with it once only, so that it locks nobody out', async () => {
    for (const [authentication, tries] of [
      ['username-token', 1],
      ['http-digest', 1],
    ] as const) {
      await using camera = await DeviceService.start({ credential, authentication: [authentication] })
      expect(await ask(camera.url, { as: wrong })).toEqual({ authentication: 'refused' })
      const kinds = camera.requests.filter(({ headers, body }) =>
        authentication === 'username-token' ? body.includes('UsernameToken') : headers.authorization !== undefined,
      )
      expect(kinds.length).toBe(tries)
      expectNoPassword(camera, wrong)
    }
  })

  it('that asks for the password itself does not get it', async () => {
    await using camera = await DeviceService.start({ credential })
    camera.misbehave('basic-challenge', ['GetDeviceInformation'])
    await ask(camera.url, { as: credential })
    expect(camera.requests.some(({ headers }) => headers.authorization?.startsWith('Basic'))).toBe(false)
    expectNoPassword(camera, credential)
  })

  it('whose user may not see everything shows what he may', async () => {
    await using camera = await DeviceService.start({ credential })
    camera.misbehave('fault-of-soap-1.1', ['GetNetworkInterfaces'])
    const facts = await ask(camera.url, { as: credential })
    expect(facts).toMatchObject({ authentication: 'accepted', ...INFORMATION, scopes: expect.any(Array) })
    expect(facts.ipAddress).toBeUndefined()
  })
})

describe('the media services of a camera', () => {
  const options = { mediaProfiles: true }
  const profiles = (origin: string) =>
    ['main', 'sub'].map((token) => ({
      token,
      name: token,
      streamUri: `rtsp://127.0.0.1:554/${token}`,
      snapshotUri: `${origin}/snapshot/${token}`,
    }))

  it.each([
    ['2', { media: [2] }, 'http://www.onvif.org/ver20/media/wsdl'],
    ['1', { media: [1] }, 'http://www.onvif.org/ver10/media/wsdl'],
    ['2 rather than 1', {}, 'http://www.onvif.org/ver20/media/wsdl'],
    ['1, known by GetCapabilities', { hasGetServices: false }, 'http://www.onvif.org/ver10/media/wsdl'],
  ] satisfies [string, DeviceServiceOptions, string][])(
    'are asked for profiles, streams and snapshots: media %s',
    async (_version, service, namespace) => {
      await using camera = await DeviceService.start({ credential, ...service })
      const facts = await ask(camera.url, { as: credential, options })
      expect(facts.profiles).toEqual(profiles(new URL(camera.url).origin))
      expect(camera.requests.find(({ operation }) => operation === 'GetProfiles')?.body).toContain(namespace)
    },
  )

  it('are not asked where nobody wants to know', async () => {
    await using camera = await DeviceService.start({ credential })
    expect((await ask(camera.url, { as: credential })).profiles).toBeUndefined()
  })

  it('are media 1 where media 2 does not answer', async () => {
    await using camera = await DeviceService.start({ credential })
    camera.misbehave('fault', ['GetProfiles'])
    expect((await ask(camera.url, { as: credential, options })).profiles).toBeUndefined()
    const asked = camera.requests
      .filter(({ operation }) => operation === 'GetProfiles')
      .map(({ body }) => /ver\d0/.exec(body)?.[0])
    expect(asked).toEqual(['ver20', 'ver10'])
  })

  it('are not asked, nor are their URIs taken, where they are not in the allowed networks', async () => {
    await using elsewhere = await DeviceService.start({ address: '127.0.0.2' })
    const origin = new URL(elsewhere.url).origin
    await using camera = await DeviceService.start({ credential, origin })
    const url = `http://127.0.0.1:${camera.port}/onvif/device_service`
    const facts = await ask(url, { as: credential, options: { ...options, policy: policy('127.0.0.1') } })
    expect(facts).toMatchObject({ authentication: 'accepted', ...INFORMATION })
    expect(facts.profiles).toBeUndefined()
    expect(elsewhere.requests).toEqual([])
  })

  it('do not learn who asks where they are at another address than the camera', async () => {
    await using elsewhere = await DeviceService.start({ address: '127.0.0.2', credential })
    await using camera = await DeviceService.start({ credential, origin: new URL(elsewhere.url).origin })
    const facts = await ask(`http://127.0.0.1:${camera.port}/onvif/device_service`, { as: credential, options })
    expect(facts).toMatchObject({ authentication: 'accepted', ...INFORMATION })
    expect(elsewhere.requests.map(({ operation }) => operation)).toEqual(['GetProfiles', 'GetProfiles'])
    for (const { headers, body } of elsewhere.requests) {
      expect(headers.authorization).toBeUndefined()
      expect(body).not.toContain('Username')
    }
  })

  it('give no URI with a password in it', async () => {
    const secret = { username: 'operator', password: 'hunter2' }
    await using camera = await DeviceService.start({ credential: secret, identity: { profiles: ['main', 'a-hunter2'] } })
    const found = (await ask(camera.url, { as: secret, options })).profiles
    expect(found?.map(({ token, streamUri }) => [token, streamUri !== undefined])).toEqual([
      ['main', true],
      ['a-hunter2', false],
    ])
  })
})

const openssl = spawnSync('openssl', ['version']).status === 0

describe.skipIf(!openssl)('a camera with https (needs openssl)', () => {
  const directory = mkdtempSync(path.join(os.tmpdir(), 'akri-camera-'))
  const read = (file: string) => readFileSync(path.join(directory, file), 'utf8')
  let tls: { readonly key: string; readonly cert: string }

  beforeAll(() => {
    execFileSync(
      'openssl',
      [
        ...['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '1', '-subj', '/CN=camera'],
        ...['-addext', 'subjectAltName=IP:127.0.0.1,DNS:camera.example', '-keyout', 'key.pem', '-out', 'cert.pem'],
      ],
      { cwd: directory, stdio: 'pipe' },
    )
    tls = { key: read('key.pem'), cert: read('cert.pem') }
  })
  afterAll(() => rmSync(directory, { recursive: true, force: true }))

  it('D2 is asked, whoever has made its certificate', async () => {
    await using camera = await DeviceService.start({ tls, credential })
    expect(camera.url).toMatch(/^https:/)
    expect(await ask(camera.url, { as: credential })).toMatchObject({ authentication: 'accepted', ...INFORMATION })
  })

  it('is asked where its certificate is to be verified and an authority says that it is right', async () => {
    await using camera = await DeviceService.start({ tls })
    const verify = { certificates: 'verify', authorities: tls.cert } as const
    expect(await ask(camera.url, { options: verify })).toMatchObject(INFORMATION)
    const named = (host: string) => {
      const resolving = new NetworkPolicy([{ address: '127.0.0.1', prefix: 32, family: 'ipv4' }], {
        resolve: async () => ['127.0.0.1'],
      })
      return ask(`https://${host}:${camera.port}/onvif/device_service`, { options: { ...verify, policy: resolving } })
    }
    expect(await named('camera.example')).toMatchObject(INFORMATION)
    await expect(named('other.example')).rejects.toThrow('other.example')
    await expect(ask(camera.url, { options: { certificates: 'verify' } })).rejects.toMatchObject({
      code: 'AKRI_ERR_ONVIF_UNREACHABLE',
      message: expect.stringContaining('self-signed'),
    })
  })

  it('alone is given a credential where certificates are to be verified', async () => {
    const verify = { certificates: 'verify', authorities: tls.cert } as const
    await using secure = await DeviceService.start({ tls, credential })
    expect(await ask(secure.url, { as: credential, options: verify })).toMatchObject({
      authentication: 'accepted',
      ...INFORMATION,
    })
    await using plain = await DeviceService.start({ credential })
    expect(await ask(plain.url, { as: credential, options: verify })).toEqual({ authentication: 'required' })
    expect(plain.requests.some(({ headers, body }) => headers.authorization !== undefined || body.includes('Username'))).toBe(
      false,
    )
  })

  it('may be as old as TLS 1.0', async () => {
    const old = { minVersion: 'TLSv1', maxVersion: 'TLSv1', ciphers: 'DEFAULT:@SECLEVEL=0' } as const
    await using camera = await DeviceService.start({ tls: { ...tls, ...old } })
    expect(await ask(camera.url)).toMatchObject(INFORMATION)
  })
})

describe('what is no camera, or a bad one', () => {
  const NEVER_ENDING: readonly string[] = ['silence', 'byte-by-byte', 'endless-hope']
  const patience = (how: string) => ({ requestTimeoutMs: NEVER_ENDING.includes(how) ? 400 : 15_000 })

  const BAD = [
    ['silence', 'AKRI_ERR_ONVIF_UNREACHABLE', 'it took longer than 400 ms'],
    ['byte-by-byte', 'AKRI_ERR_ONVIF_UNREACHABLE', 'it took longer than 400 ms'],
    ['endless-hope', 'AKRI_ERR_ONVIF_UNREACHABLE', 'http://127.0.0.1'],
    ['endless-body', 'AKRI_ERR_ONVIF_UNREACHABLE', 'more than 1048576 bytes'],
    ['endless-headers', 'AKRI_ERR_ONVIF_UNREACHABLE', 'Header overflow'],
    ['closed-connection', 'AKRI_ERR_ONVIF_UNREACHABLE', 'socket hang up'],
    ['half-a-reply', 'AKRI_ERR_ONVIF_UNREACHABLE', 'aborted'],
    ['no-http', 'AKRI_ERR_ONVIF_UNREACHABLE', 'Parse Error'],
    ['other-protocol', 'AKRI_ERR_ONVIF_UNREACHABLE', 'another protocol'],
    ['empty', 'AKRI_ERR_ONVIF_XML', 'GetSystemDateAndTime'],
    ['html', 'AKRI_ERR_ONVIF_XML', 'document type'],
    ['broken-xml', 'AKRI_ERR_ONVIF_XML', 'closing tag'],
    ['entity-bomb', 'AKRI_ERR_ONVIF_XML', 'document type'],
    ['deep-xml', 'AKRI_ERR_ONVIF_XML', 'nested'],
    ['many-elements', 'AKRI_ERR_ONVIF_XML', 'elements'],
    ['other-response', 'AKRI_ERR_ONVIF_REPLY', 'no GetSystemDateAndTimeResponse'],
    ['server-error', 'AKRI_ERR_ONVIF_REPLY', 'HTTP status 500'],
    ['fault', 'AKRI_ERR_ONVIF_FAULT', 'Sender, ActionNotSupported: not supported'],
    ['fault-of-soap-1.1', 'AKRI_ERR_ONVIF_NOT_AUTHORIZED', 'Client, NotAuthorized: who are you?'],
    ['basic-challenge', 'AKRI_ERR_ONVIF_NOT_AUTHORIZED', 'HTTP status 401'],
  ] as const

  it.each(BAD)('D2 is an error that names it, in time, and leaves no connection: %s', async (how, code, message) => {
    await using camera = await DeviceService.start()
    camera.misbehave(how)
    const { signal } = new AbortController()
    const started = performance.now()
    await expect(ask(camera.url, { options: patience(how), signal })).rejects.toMatchObject({
      code,
      message: expect.stringContaining(message),
    })
    expect(performance.now() - started).toBeLessThan(20_000)
    expect(getEventListeners(signal, 'abort')).toEqual([])
    await expect.poll(() => camera.connections()).toBe(0)
  })

  it.each(BAD)('D2 still is a camera where it is only bad in between: %s', async (how, code) => {
    await using camera = await DeviceService.start({ credential })
    camera.misbehave(how, ['GetNetworkInterfaces'])
    const facts = await ask(camera.url, { as: credential, options: patience(how) })
    expect(facts).toMatchObject({ authentication: 'accepted', ...INFORMATION })
    expect(facts.macAddress).toBeUndefined()
    // Who does not answer is not asked on.
    const silent = code === 'AKRI_ERR_ONVIF_UNREACHABLE'
    expect([facts.incomplete?.code, facts.scopes === undefined]).toEqual([silent ? code : undefined, silent])
  })

  it.each(['soap-1.1', 'other-prefixes', 'undeclared-prefixes'] as const)(
    'D2 is understood in other spellings: %s',
    async (how) => {
      await using camera = await DeviceService.start()
      camera.misbehave(how)
      const facts = await ask(camera.url, { options: { mediaProfiles: true } })
      expect(facts).toMatchObject({
        ...INFORMATION,
        ...NETWORK,
        scopes: [expect.any(String), expect.any(String), expect.any(String)],
      })
      expect(facts.profiles?.map(({ streamUri }) => streamUri)).toEqual(['rtsp://127.0.0.1:554/main', 'rtsp://127.0.0.1:554/sub'])
    },
  )

  it('D2 is understood where its HTTP is not what it should be', async () => {
    await using camera = await DeviceService.start()
    camera.misbehave('naive-http')
    expect(await ask(camera.url)).toMatchObject({ ...INFORMATION, ...NETWORK })
  })

  it('D2 is understood in other encodings', async () => {
    await using camera = await DeviceService.start()
    camera.misbehave('latin-1')
    expect(await ask(camera.url)).toMatchObject({ model: 'Simulated camera é' })
  })

  it('is not followed elsewhere', async () => {
    await using elsewhere = await DeviceService.start()
    await using camera = await DeviceService.start()
    camera.misbehave({ redirect: elsewhere.url })
    await expect(ask(camera.url)).rejects.toMatchObject({
      code: 'AKRI_ERR_ONVIF_REPLY',
      message: 'GetSystemDateAndTime: HTTP status 307; redirects are not followed',
    })
    expect(elsewhere.requests).toEqual([])
  })

  it('may want a new digest each time, but not for ever', async () => {
    await using camera = await DeviceService.start({ credential, authentication: ['http-digest'] })
    camera.misbehave('endless-challenge', ['GetDeviceInformation'])
    const facts = await ask(camera.url, { as: credential })
    expect(facts.authentication).toBe('refused')
    expect(camera.requests.filter(({ operation }) => operation === 'GetDeviceInformation').length).toBe(4)
  })

  it('is given up when all its answers together take too long', async () => {
    await using camera = await DeviceService.start()
    camera.misbehave('byte-by-byte', ['GetScopes'])
    const facts = await ask(camera.url, { options: { requestTimeoutMs: 10_000, timeoutMs: 600 } })
    expect(facts).toMatchObject({ ...INFORMATION, ...NETWORK, incomplete: { code: 'AKRI_ERR_ONVIF_UNREACHABLE' } })
    expect(facts.incomplete?.message).toContain('longer than 600 ms')
    await expect.poll(() => camera.connections()).toBe(0)
  })

  it('is given up when its name takes too long to resolve', async () => {
    const options = { timeoutMs: 100, policy: new NetworkPolicy([], { resolve: () => new Promise(() => {}) }) }
    await expect(ask('http://camera.example/', { options })).rejects.toThrow('longer than 100 ms')
  })

  it('is left at once when nobody wants the answer any more', async () => {
    await using camera = await DeviceService.start()
    camera.misbehave('silence', ['GetDeviceInformation'])
    const abort = new AbortController()
    const asked = ask(camera.url, { signal: abort.signal })
    await expect.poll(() => camera.requests.length).toBe(2)
    abort.abort(new Error('enough'))
    await expect(asked).rejects.toThrow('enough')
    await expect.poll(() => camera.connections()).toBe(0)
    await expect(ask(camera.url, { signal: abort.signal })).rejects.toThrow('enough')
    expect(camera.requests.length).toBe(2)
  })

  it('is not spoken to where it is not in the allowed networks', async () => {
    await using camera = await DeviceService.start()
    const asked = ask(camera.url, { options: { policy: policy('10.0.0.0/8') } })
    await expect(asked).rejects.toMatchObject({ code: 'AKRI_ERR_ONVIF_ADDRESS' })
    expect(camera.requests).toEqual([])
  })

  it('is an error where nothing listens', async () => {
    const camera = await DeviceService.start()
    await camera.close()
    await expect(ask(camera.url)).rejects.toMatchObject({
      code: 'AKRI_ERR_ONVIF_UNREACHABLE',
      message: expect.stringContaining('ECONNREFUSED'),
    })
  })
})
