import { type Network, readNetwork } from '@akrijs/sdk/network'
import { describe, expect, it } from 'vitest'
import { costOf } from '../../../test/support/cost.js'
import { NetworkPolicy } from './network-policy.js'

function networks(...texts: string[]): Network[] {
  return texts.map((text) => readNetwork(text) ?? expect.fail(`${text} is not a network`))
}

const lan = new NetworkPolicy(networks('192.168.1.0/24', 'fd12::/64', 'fe80::/10'))

describe('the URL from a camera', () => {
  it('D2 can have http or https, and an IPv4 or IPv6 address', async () => {
    expect((await lan.destination('http://192.168.1.7/onvif/device_service')).address).toBe(
      '192.168.1.7',
    )
    expect((await lan.destination('https://[fd12::7]:8443/onvif')).address).toBe('fd12::7')
    expect((await lan.destination('http://[fe80::7]/onvif', { zone: 'eth0' })).address).toBe(
      'fe80::7%eth0',
    )
  })

  it.each([
    ['http://10.96.0.1/', '10.96.0.1 is not in the allowed networks'],
    ['http://[::1]:6443/', '::1 is not in the allowed networks'],
    ['http://2130706433/', '127.0.0.1 is not in the allowed networks'],
    ['http://0x7f.1/', '127.0.0.1 is not in the allowed networks'],
    ['http://[::ffff:127.0.0.1]/', 'not in the allowed networks'],
    ['http://169.254.169.254/latest/meta-data', 'not in the allowed networks'],
    ['file:///etc/passwd', 'is not the URL'],
    ['ftp://192.168.1.7/', 'does not start with http:// or https://'],
    ['http://', 'is not the URL'],
    ['/onvif/device_service', 'is not the URL'],
    ['http://[fe80::1%25eth0]/', 'is not the URL'],
  ])('is refused: %s', async (url, reason) => {
    await expect(lan.destination(url)).rejects.toMatchObject({
      code: 'AKRI_ERR_ONVIF_ADDRESS',
      message: expect.stringContaining(reason),
    })
  })

  it('is refused with a user name, and the error does not contain the password', async () => {
    for (const url of ['http://root:hunter2@192.168.1.7/', 'ftp://root:hunter2@192.168.1.7/']) {
      const error: unknown = await lan.destination(url).catch((reason: unknown) => reason)
      expect(error).toMatchObject({ code: 'AKRI_ERR_ONVIF_ADDRESS' })
      expect(String(error)).not.toContain('hunter2')
    }
  })

  it.each([
    ['ftp://192.168.1.7/a@b', '"ftp://…@b" does not'],
    ['a:b:c@d@e', '"a:…@e" is not'],
    ['//root:hunter2@x', '"…@x" is not'],
    ['no-url', '"no-url" is not'],
  ])('is quoted in the error without what can be a password: %s', (url, reason) => {
    expect(() => lan.read(url)).toThrow(reason)
  })

  it('is refused in a time that grows with its length', async () => {
    const refuse = () => {
      for (const text of ['/', 'a:', '@'])
        expect(() => lan.read(text.repeat(250_000))).toThrow('is not the URL of a service')
    }
    expect(await costOf(refuse)).toBeLessThan(5000)
  })

  it('can have a host name if all its addresses are allowed, and keep it', async () => {
    let answers = [['192.168.1.7', 'fd12::7'], ['10.96.0.1']]
    const policy = new NetworkPolicy(networks('192.168.1.0/24', 'fd12::/64'), {
      hostNames: { addressesOf: async () => answers.shift() ?? [] },
    })
    expect(await policy.destination('http://camera.example/')).toMatchObject({
      address: '192.168.1.7',
    })
    await expect(policy.destination('http://camera.example/')).rejects.toThrow(
      '10.96.0.1 (camera.example) is not in',
    )
    await expect(policy.destination('http://camera.example/')).rejects.toMatchObject({
      code: 'AKRI_ERR_ONVIF_UNREACHABLE',
    })
    answers = [['192.168.1.7', '127.0.0.1']]
    await expect(policy.destination('http://camera.example/')).rejects.toMatchObject({
      code: 'AKRI_ERR_ONVIF_ADDRESS',
    })
  })

  it('can have a host name that the system resolves', async () => {
    const loopback = new NetworkPolicy(networks('127.0.0.0/8', '::1'))
    expect(['127.0.0.1', '::1']).toContain(
      (await loopback.destination('http://localhost:8080/')).address,
    )
    await expect(lan.destination('http://localhost:8080/')).rejects.toMatchObject({
      code: 'AKRI_ERR_ONVIF_ADDRESS',
    })
    await expect(lan.destination('http://no-such-host.invalid/')).rejects.toMatchObject({
      code: 'AKRI_ERR_ONVIF_UNREACHABLE',
    })
  })

  it('cannot have an address of this machine, unless its own network is allowed', async () => {
    const ownAddresses = ['192.168.1.5', 'fd12::5', '127.0.0.1']
    const policy = (...allowed: string[]) =>
      new NetworkPolicy(networks(...allowed), {
        ownAddresses,
        hostNames: { addressesOf: async () => ['192.168.1.5'] },
      })
    const wide = policy('192.168.0.0/16', 'fd12::/64')
    for (const url of [
      'http://192.168.1.5:10250/',
      'http://[fd12::5]/',
      'http://[::ffff:192.168.1.5]/',
      'http://3232235781/',
    ]) {
      await expect(wide.destination(url)).rejects.toThrow('is an address of this machine')
    }
    await expect(wide.destination('http://node/')).rejects.toThrow(
      '192.168.1.5 (node) is an address of this machine',
    )
    expect((await wide.destination('http://192.168.1.6/')).address).toBe('192.168.1.6')
    expect(
      (await policy('192.168.0.0/16', '192.168.1.5').destination('http://node/')).address,
    ).toBe('192.168.1.5')
  })
})
