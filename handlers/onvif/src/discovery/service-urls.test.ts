import { readNetwork } from '@akrijs/sdk/network'
import { describe, expect, it } from 'vitest'
import { NetworkPolicy } from '../network-policy.js'
import { serviceUrls } from './service-urls.js'

const policy = new NetworkPolicy(
  ['10.0.0.0/8', 'fd00::/8'].flatMap((text) => readNetwork(text) ?? []),
  { ownAddresses: ['10.0.0.5'] },
)
const urlsOf = (...args: Parameters<typeof serviceUrls>) => serviceUrls(...args).urls

describe('the URLs of a device service', () => {
  it('have the order of the camera, but http before https and IPv4 before IPv6', () => {
    const xAddrs = [
      'https://[fd00::1]/a',
      'http://[fd00::1]/a',
      'https://10.0.0.1/a',
      'http://10.0.0.2/a',
      'http://10.0.0.1/a',
    ]
    expect(urlsOf(xAddrs, policy)).toEqual([
      'http://10.0.0.2/a',
      'http://10.0.0.1/a',
      'https://10.0.0.1/a',
      'http://[fd00::1]/a',
      'https://[fd00::1]/a',
    ])
  })

  it('begin with https if certificates are verified, because http gets no credential', () => {
    const xAddrs = [
      'http://10.0.0.1/a',
      'https://[fd00::1]/a',
      'https://10.0.0.1/a',
      'http://[fd00::1]/a',
    ]
    expect(urlsOf(xAddrs, policy, { secureFirst: true })).toEqual([
      'https://10.0.0.1/a',
      'https://[fd00::1]/a',
      'http://10.0.0.1/a',
      'http://[fd00::1]/a',
    ])
  })

  it('are listed once and unchanged, also with a host name', () => {
    expect(urlsOf(['HTTP://Camera.example:80/A', 'HTTP://Camera.example:80/A'], policy)).toEqual([
      'HTTP://Camera.example:80/A',
    ])
  })

  it.each([
    // network-policy.test.ts has more.
    ['of another network', 'http://192.168.1.1/', '192.168.1.1 is not in the allowed networks'],
    [
      'of this machine in an allowed network',
      'http://10.0.0.5:10250/',
      '10.0.0.5 is an address of this machine',
    ],
    [
      'invalid because of a password',
      'http://root:hunt/er2@10.0.0.1/',
      '"http://…@10.0.0.1/" is not the URL of a service',
    ],
  ])('are refused without showing a password: %s', (_what, xAddr, reason) => {
    expect(serviceUrls([xAddr, 'http://10.0.0.1/'], policy)).toEqual({
      urls: ['http://10.0.0.1/'],
      refused: [expect.stringContaining(reason)],
    })
  })
})
