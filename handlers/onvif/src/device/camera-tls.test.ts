import { describe, expect, it } from 'vitest'
import { NetworkPolicy } from '../network-policy.js'
import { DeviceService } from '../testing/device-service.js'
import { credential, INFORMATION, query } from '../testing/internal/camera-query.js'
import { authorities, tls } from '../testing/internal/certificates.js'

const verify = { certificates: 'verify', authorities } as const

describe('a camera with https', () => {
  it('D2 is called with any certificate', async () => {
    await using camera = await DeviceService.start({ tls, credential })
    expect(camera.url).toMatch(/^https:/)
    expect(await query(camera.url, { as: credential })).toMatchObject({
      authentication: 'accepted',
      ...INFORMATION,
    })
  })

  it('is called with a signed certificate, if certificates are verified', async () => {
    await using camera = await DeviceService.start({ tls })
    expect(await query(camera.url, { options: verify })).toMatchObject(INFORMATION)
    const named = (host: string) => {
      const resolving = new NetworkPolicy([{ address: '127.0.0.1', prefix: 32, family: 'ipv4' }], {
        hostNames: { addressesOf: async () => ['127.0.0.1'] },
      })
      return query(`https://${host}:${camera.port}/onvif/device_service`, {
        options: { ...verify, policy: resolving },
      })
    }
    expect(await named('camera.example')).toMatchObject(INFORMATION)
    await expect(named('other.example')).rejects.toThrow('other.example')
    await expect(query(camera.url, { options: { certificates: 'verify' } })).rejects.toMatchObject({
      code: 'AKRI_ERR_ONVIF_UNREACHABLE',
      message: expect.stringContaining('self-signed'),
    })
  })

  it('is the only one to get a credential if certificates are verified', async () => {
    await using secure = await DeviceService.start({ tls, credential })
    expect(await query(secure.url, { as: credential, options: verify })).toMatchObject({
      authentication: 'accepted',
      ...INFORMATION,
    })
    await using plain = await DeviceService.start({ credential })
    expect(await query(plain.url, { as: credential, options: verify })).toEqual({
      authentication: 'required',
    })
    expect(
      plain.requests.some(
        ({ headers, body }) => headers.authorization !== undefined || body.includes('Username'),
      ),
    ).toBe(false)
  })

  it('may have TLS 1.0', async () => {
    const old = {
      minVersion: 'TLSv1',
      maxVersion: 'TLSv1',
      ciphers: 'DEFAULT:@SECLEVEL=0',
    } as const
    await using camera = await DeviceService.start({ tls: { ...tls, ...old } })
    expect(await query(camera.url)).toMatchObject(INFORMATION)
  })
})
