import type { ServerResponse } from 'node:http'
import { describe, expect, it } from 'vitest'
import { soapFault } from '../testing/device-replies.js'
import { DeviceService, type DeviceServiceOptions } from '../testing/device-service.js'
import {
  credential,
  expectNoPassword,
  INFORMATION,
  NETWORK,
  query,
} from '../testing/internal/camera-query.js'
import type { Misbehaviour } from '../testing/misbehaviour.js'

const wrong = { username: 'operator', password: 'hunter2' }
/** A camera that answers no call without a credential. */
const closed = { credential, openOperations: [] } satisfies DeviceServiceOptions

describe('a camera that does not tell its time', () => {
  it.each([
    ['by a fault', 'fault'],
    ['by a fault that asks for a credential', 'fault-of-soap-1.1'],
    ['by the status 401', 'basic-challenge'],
    ['by the status 500', 'server-error'],
    ['by a page', 'html'],
    ['by an empty answer', 'empty'],
    ['by the answer to another question', 'other-response'],
  ] satisfies [string, Misbehaviour][])(
    'D2 is read with and without a credential: %s',
    async (_how, misbehaviour) => {
      await using open = await DeviceService.start()
      open.misbehave(misbehaviour, ['GetSystemDateAndTime'])
      expect(await query(open.url)).toMatchObject({
        authentication: 'none',
        ...INFORMATION,
        ...NETWORK,
      })
      for (const authentication of ['username-token', 'http-digest'] as const) {
        await using camera = await DeviceService.start({
          credential,
          authentication: [authentication],
        })
        camera.misbehave(misbehaviour, ['GetSystemDateAndTime'])
        expect(await query(camera.url, { as: credential })).toMatchObject({
          authentication: 'accepted',
          ...INFORMATION,
          ...NETWORK,
        })
        expect(await query(camera.url, { as: wrong })).toEqual({ authentication: 'refused' })
        expect(await query(camera.url)).toEqual({ authentication: 'required' })
        expectNoPassword(camera, credential)
      }
    },
  )

  it.each(['username-token', 'http-digest'] as const)(
    'D2 is read if each call needs a credential: %s',
    async (authentication) => {
      await using camera = await DeviceService.start({
        ...closed,
        authentication: [authentication],
      })
      expect(await query(camera.url, { as: credential })).toMatchObject({
        authentication: 'accepted',
        ...INFORMATION,
        ...NETWORK,
      })
    },
  )

  it('D2 is a camera if it asks for a credential by a fault, and there is none', async () => {
    await using camera = await DeviceService.start({
      ...closed,
      authentication: ['username-token'],
    })
    expect(await query(camera.url)).toEqual({ authentication: 'required' })
    expect(await query(camera.url, { as: wrong })).toEqual({ authentication: 'refused' })
  })

  it.each([
    ['fault', 'none'],
    ['fault-of-soap-1.1', 'required'],
  ] as const)('is a camera if it answers each call by a %s', async (fault, authentication) => {
    await using camera = await DeviceService.start()
    camera.misbehave(fault)
    expect(await query(camera.url)).toEqual({ authentication })
  })

  it('is a camera if it answers GetServices only', async () => {
    await using camera = await DeviceService.start()
    camera.misbehave('server-error', [
      ...['GetSystemDateAndTime', 'GetDeviceInformation'],
      ...['GetNetworkInterfaces', 'GetScopes'],
    ])
    expect(await query(camera.url)).toEqual({ authentication: 'none' })
  })
})

describe('a camera that reads requests of one kind only', () => {
  const plain = (type: string) =>
    type.startsWith('application/soap+xml') && !type.includes('action')
  const old = (type: string) => type.startsWith('text/xml')
  const page = (status: number) => (response: ServerResponse) => {
    response.writeHead(status).end('<p>no')
  }
  const fault = (status: number, subcode: string) => (response: ServerResponse) => {
    response.writeHead(status).end(soapFault(undefined, 'no', '1.1').replace('Client', subcode))
  }

  it.each<[string, (type: string) => boolean, (response: ServerResponse) => void]>([
    ['no action in the Content-Type, by 415', plain, page(415)],
    ['no action in the Content-Type, by 400', plain, page(400)],
    ['no action in the Content-Type, by 500', plain, page(500)],
    ['no action in the Content-Type, by 415 and a fault', plain, fault(415, 'Client')],
    ['no action in the Content-Type, by 400 and a fault', plain, fault(400, 'Client')],
    ['SOAP 1.1, by 415', old, page(415)],
    ['SOAP 1.1, by 500 and a fault', old, fault(500, 'VersionMismatch')],
    ['SOAP 1.1, by 200 and a fault', old, fault(200, 'VersionMismatch')],
  ])('is read with and without a credential: %s', async (_what, accepts, refuse) => {
    const answer: Misbehaviour = {
      answer: (response, correct) => {
        const { headers } = response.req
        if (accepts(headers['content-type'] ?? '')) response.end(correct)
        else refuse(response)
      },
    }
    for (const authentication of ['username-token', 'http-digest'] as const) {
      await using camera = await DeviceService.start({
        credential,
        authentication: [authentication],
      })
      camera.misbehave(answer)
      const facts = await query(camera.url, { as: credential, options: { mediaProfiles: true } })
      expect(facts).toMatchObject({ authentication: 'accepted', ...INFORMATION, ...NETWORK })
      expect(facts.profiles).toHaveLength(2)
      // The other kinds are tried once.
      const tries = camera.requests.filter(({ operation }) => operation === 'GetSystemDateAndTime')
      expect(tries).toHaveLength(accepts === old ? 3 : 2)
      const last = camera.requests.at(-1)
      expect(last?.body).toContain(accepts === old ? 'schemas.xmlsoap.org/soap' : '2003/05/soap')
      if (accepts === old) expect(last?.headers.soapaction).toMatch(/^"http.*GetSnapshotUri"$/)
    }
  })

  it('names the cause if the camera reads none of them', async () => {
    await using camera = await DeviceService.start()
    camera.misbehave({ answer: page(415) })
    await expect(query(camera.url)).rejects.toThrow(
      'HTTP status 415; it refuses SOAP 1.2 (application/soap+xml) and SOAP 1.1 (text/xml)',
    )
  })
})

describe('a device that does not speak SOAP', () => {
  it('is not a camera if it answers each call by the status 401', async () => {
    await using camera = await DeviceService.start({ ...closed, authentication: ['http-digest'] })
    const message = 'GetSystemDateAndTime: HTTP status 401'
    await expect(query(camera.url)).rejects.toMatchObject({
      code: 'AKRI_ERR_ONVIF_NOT_AUTHORIZED',
      message,
    })
    await expect(query(camera.url, { as: wrong })).rejects.toMatchObject({
      code: 'AKRI_ERR_ONVIF_CREDENTIAL_REFUSED',
      message: `${message}; the credential is refused`,
    })
    const digests = camera.requests.filter(({ headers }) => headers.authorization !== undefined)
    expect(digests).toHaveLength(1)
  })

  it('gets no digest of a password unless it asks for a credential', async () => {
    for (const misbehaviour of ['html', 'server-error', 'empty'] as const) {
      await using device = await DeviceService.start()
      device.misbehave(misbehaviour)
      await expect(query(device.url, { as: credential })).rejects.toThrow('GetSystemDateAndTime')
      // A camera may refuse the way in which the first request is written.
      const first = Array(misbehaviour === 'server-error' ? 3 : 1).fill('GetSystemDateAndTime')
      expect(device.requests.map(({ operation }) => operation)).toEqual([
        ...first,
        'GetDeviceInformation',
        'GetServices',
      ])
      expect(JSON.stringify(device.requests)).not.toMatch(/UsernameToken|Digest/)
    }
  })
})
