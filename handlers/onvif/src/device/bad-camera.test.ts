import { getEventListeners } from 'node:events'
import { AkriError } from '@akrijs/sdk'
import { describe, expect, it } from 'vitest'
import type { Credential } from '../credentials.js'
import { unanswered } from '../discovery/left-out-cameras.js'
import { NetworkPolicy } from '../network-policy.js'
import { DeviceService } from '../testing/device-service.js'
import {
  credential,
  INFORMATION,
  NETWORK,
  policy,
  query,
} from '../testing/internal/camera-query.js'
import type { Misbehaviour } from '../testing/misbehaviour.js'

describe('a device with faults', () => {
  const NEVER_ENDING: readonly string[] = ['silence', 'byte-by-byte', 'endless-hope']
  const patience = (how: string, ms: number) =>
    NEVER_ENDING.includes(how) ? { requestTimeoutMs: ms } : {}

  const page = (status: number): Misbehaviour => ({
    answer: (response) => response.writeHead(status).end('<p>no'),
  })
  const raw = (head: string): Misbehaviour => ({
    answer: ({ socket }, correct) => socket?.end(`${head}\r\n\r\n${correct}`),
  })
  const failureOf = (facts: Promise<unknown>): Promise<AkriError> =>
    facts.then(
      () => expect.fail('the camera has answered'),
      (error) => (AkriError.is(error) ? error : expect.fail(String(error))),
    )
  /** Why the handler does not offer a camera. */
  const reasonOf = (error: AkriError) =>
    unanswered('', '127.0.0.1', new Map([['http://127.0.0.1/', error]])).reason

  type Bad = [Extract<Misbehaviour, string>, code: string, message: string, reason?: string]
  const BAD: readonly Bad[] = [
    ['silence', 'AKRI_ERR_ONVIF_UNREACHABLE', 'it took longer than 400 ms', 'no answer in time'],
    [
      'byte-by-byte',
      'AKRI_ERR_ONVIF_UNREACHABLE',
      'it took longer than 400 ms',
      'no answer in time',
    ],
    ['endless-hope', 'AKRI_ERR_ONVIF_UNREACHABLE', 'http://127.0.0.1', expect.any(String)],
    ['endless-body', 'AKRI_ERR_ONVIF_UNREACHABLE', 'more than 1048576 bytes'],
    ['endless-headers', 'AKRI_ERR_ONVIF_UNREACHABLE', 'Header overflow'],
    ['closed-connection', 'AKRI_ERR_ONVIF_UNREACHABLE', 'socket hang up', 'connection closed'],
    ['half-a-reply', 'AKRI_ERR_ONVIF_UNREACHABLE', 'aborted', 'connection closed'],
    ['no-http', 'AKRI_ERR_ONVIF_UNREACHABLE', 'the header of the answer is not HTTP: Expected'],
    ['other-protocol', 'AKRI_ERR_ONVIF_UNREACHABLE', 'another protocol'],
    ['empty', 'AKRI_ERR_ONVIF_XML', 'GetSystemDateAndTime'],
    ['html', 'AKRI_ERR_ONVIF_XML', 'document type'],
    ['broken-xml', 'AKRI_ERR_ONVIF_XML', 'close tag'],
    ['entity-bomb', 'AKRI_ERR_ONVIF_XML', 'document type'],
    ['deep-xml', 'AKRI_ERR_ONVIF_XML', 'nested'],
    ['many-elements', 'AKRI_ERR_ONVIF_XML', 'elements'],
    ['brotli', 'AKRI_ERR_ONVIF_REPLY', 'the content encoding "br"'],
    ['half-a-gzip', 'AKRI_ERR_ONVIF_REPLY', 'cannot be decompressed'],
    ['gzip-bomb', 'AKRI_ERR_ONVIF_REPLY', 'cannot be decompressed'],
    ['multipart-without-boundary', 'AKRI_ERR_ONVIF_REPLY', 'names no boundary'],
    ['multipart-without-root', 'AKRI_ERR_ONVIF_REPLY', 'no root part'],
    ['two-different-lengths', 'AKRI_ERR_ONVIF_UNREACHABLE', 'Duplicate Content-Length'],
    ['unknown-charset', 'AKRI_ERR_ONVIF_XML', 'martian'],
    ['other-response', 'AKRI_ERR_ONVIF_REPLY', 'no GetSystemDateAndTimeResponse'],
    ['server-error', 'AKRI_ERR_ONVIF_REPLY', 'HTTP status 500', 'HTTP status 500'],
    ['basic-challenge', 'AKRI_ERR_ONVIF_NOT_AUTHORIZED', 'HTTP status 401', 'HTTP status 401'],
  ]

  it.each(BAD)(
    'D2 is reported as an error, and leaves no connection: %s',
    async (how, code, message, reason = 'no answer of a camera') => {
      await using camera = await DeviceService.start()
      camera.misbehave(how)
      const { signal } = new AbortController()
      const error = await failureOf(query(camera.url, { ...patience(how, 400), signal }))
      expect([error.code, error.message]).toEqual([code, expect.stringContaining(message)])
      expect(reasonOf(error)).toEqual(reason)
      expect(getEventListeners(signal, 'abort')).toEqual([])
      await expect.poll(() => camera.connections()).toBe(0)
    },
  )

  it.each<Bad>([
    ...BAD,
    ['fault', 'AKRI_ERR_ONVIF_FAULT', ''],
    ['fault-of-soap-1.1', 'AKRI_ERR_ONVIF_NOT_AUTHORIZED', ''],
  ])('D2 is still a camera if only one call fails: %s', async (how, code) => {
    await using camera = await DeviceService.start({ credential })
    camera.misbehave(how, ['GetNetworkInterfaces'])
    // The requests with an answer need some time.
    const facts = await query(camera.url, { as: credential, ...patience(how, 3000) })
    expect(facts).toMatchObject({ authentication: 'accepted', ...INFORMATION })
    expect(facts.macAddress).toBeUndefined()
    // After a call without an answer, the handler makes no more calls.
    const silent = code === 'AKRI_ERR_ONVIF_UNREACHABLE'
    expect([facts.incomplete?.code, facts.scopes === undefined]).toEqual([
      silent ? code : undefined,
      silent,
    ])
  })

  it.each(['soap-1.1', 'other-prefixes', 'undeclared-prefixes'] as const)(
    'D2 is read with other spellings: %s',
    async (how) => {
      await using camera = await DeviceService.start()
      camera.misbehave(how)
      const facts = await query(camera.url, { options: { mediaProfiles: true } })
      expect(facts).toMatchObject({
        ...INFORMATION,
        ...NETWORK,
        scopes: Array(5).fill(expect.any(String)),
      })
      expect(facts.profiles?.map(({ streamUri }) => streamUri)).toEqual([
        'rtsp://127.0.0.1:554/main',
        'rtsp://127.0.0.1:554/sub',
      ])
    },
  )

  it.each<Misbehaviour>([
    'naive-http',
    'two-lengths',
    'junk-after',
    'gzip',
    'unnamed-gzip',
    'multipart',
    'zeros-after',
    'white-space-before',
    raw('HTTP/1.0 200 OK'),
    raw('HTTP/1.1 200 OK\r\nConnection: close'),
  ])('D2 is read with loose HTTP: %s', async (how) => {
    await using camera = await DeviceService.start()
    camera.misbehave(how)
    expect(await query(camera.url)).toMatchObject({ ...INFORMATION, ...NETWORK })
  })

  it.each(['latin-1', 'charset-in-header'] as const)(
    'D2 is read in other encodings: %s',
    async (how) => {
      await using camera = await DeviceService.start()
      camera.misbehave(how)
      expect(await query(camera.url)).toMatchObject({ model: 'Simulated camera é' })
    },
  )

  it.each<[string, Credential | undefined, Misbehaviour | undefined]>([
    ['HTTP status 404', undefined, page(404)],
    ['HTTP status 403', undefined, page(403)],
    ['HTTP status 503', undefined, page(503)],
    ['HTTP status 307', undefined, { redirect: 'http://127.0.0.1/' }],
    ['busy', credential, page(503)],
    ['credential refused', credential, 'basic-challenge'],
    ['credential refused', { ...credential, password: 'wrong' }, undefined],
  ])('D2 has the reason why it is not offered: %s', async (reason, as, how) => {
    await using camera = await DeviceService.start({
      ...(as && { credential, openOperations: [], authentication: ['http-digest'] }),
    })
    camera.misbehave(how)
    expect(reasonOf(await failureOf(query(camera.url, { ...(as && { as }) })))).toBe(reason)
  })

  it('is not followed when it redirects', async () => {
    await using elsewhere = await DeviceService.start()
    await using camera = await DeviceService.start()
    camera.misbehave({ redirect: elsewhere.url })
    await expect(query(camera.url)).rejects.toMatchObject({
      code: 'AKRI_ERR_ONVIF_REPLY',
      message: 'GetSystemDateAndTime: HTTP status 307; redirects are not followed',
    })
    expect(elsewhere.requests).toEqual([])
  })

  it('may ask for a new digest for some time, but not forever', async () => {
    await using camera = await DeviceService.start({ credential, authentication: ['http-digest'] })
    camera.misbehave('endless-challenge', ['GetDeviceInformation'])
    const facts = await query(camera.url, { as: credential })
    expect(facts.authentication).toBe('refused')
    expect(
      camera.requests.filter(({ operation }) => operation === 'GetDeviceInformation').length,
    ).toBe(3)
  })

  it('is abandoned when all answers together take too long', async () => {
    await using camera = await DeviceService.start()
    camera.misbehave('byte-by-byte', ['GetScopes'])
    const facts = await query(camera.url, { timeoutMs: 4000 })
    expect(facts).toMatchObject({
      ...INFORMATION,
      ...NETWORK,
      incomplete: { code: 'AKRI_ERR_ONVIF_UNREACHABLE' },
    })
    expect(facts.incomplete?.message).toContain('longer than 4000 ms')
    await expect.poll(() => camera.connections()).toBe(0)
  })

  it('is abandoned when its host name takes too long to resolve', async () => {
    const options = {
      policy: new NetworkPolicy([], { hostNames: { addressesOf: () => new Promise(() => {}) } }),
    }
    await expect(query('http://camera.example/', { options, timeoutMs: 100 })).rejects.toThrow(
      'longer than 100 ms',
    )
  })

  it('is abandoned at once when the signal is aborted', async () => {
    await using camera = await DeviceService.start()
    camera.misbehave('silence', ['GetDeviceInformation'])
    const abort = new AbortController()
    const asked = query(camera.url, { signal: abort.signal })
    await expect.poll(() => camera.requests.length).toBe(2)
    abort.abort(new Error('enough'))
    await expect(asked).rejects.toThrow('enough')
    await expect.poll(() => camera.connections()).toBe(0)
    await expect(query(camera.url, { signal: abort.signal })).rejects.toThrow('enough')
    expect(camera.requests.length).toBe(2)
  })

  it('is not called outside of the allowed networks', async () => {
    await using camera = await DeviceService.start()
    const asked = query(camera.url, { options: { policy: policy('10.0.0.0/8') } })
    await expect(asked).rejects.toMatchObject({ code: 'AKRI_ERR_ONVIF_ADDRESS' })
    expect(camera.requests).toEqual([])
  })

  it('is reported as an error if nothing listens', async () => {
    const camera = await DeviceService.start()
    await camera.close()
    await expect(query(camera.url)).rejects.toMatchObject({
      code: 'AKRI_ERR_ONVIF_UNREACHABLE',
      message: expect.stringContaining('ECONNREFUSED'),
    })
  })
})
