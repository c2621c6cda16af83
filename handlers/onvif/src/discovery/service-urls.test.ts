import { AllowedNetworks, readNetwork } from '@akrijs/sdk'
import { describe, expect, it } from 'vitest'
import { serviceUrls } from './service-urls.js'

const policy = new AllowedNetworks(['10.0.0.0/8', 'fd00::/8'].flatMap((text) => readNetwork(text) ?? []))

describe('the URLs of a device service', () => {
  it('are asked in the order of the camera, but http before https and IPv4 before IPv6', () => {
    const xAddrs = ['https://[fd00::1]/a', 'http://[fd00::1]/a', 'https://10.0.0.1/a', 'http://10.0.0.2/a', 'http://10.0.0.1/a']
    expect(serviceUrls(xAddrs, policy)).toEqual([
      'http://10.0.0.2/a',
      'http://10.0.0.1/a',
      'https://10.0.0.1/a',
      'http://[fd00::1]/a',
      'https://[fd00::1]/a',
    ])
  })

  it('begin with https where certificates are verified: by http no credential would be sent', () => {
    const xAddrs = ['http://10.0.0.1/a', 'https://[fd00::1]/a', 'https://10.0.0.1/a', 'http://[fd00::1]/a']
    expect(serviceUrls(xAddrs, policy, { secureFirst: true })).toEqual([
      'https://10.0.0.1/a',
      'https://[fd00::1]/a',
      'http://10.0.0.1/a',
      'http://[fd00::1]/a',
    ])
  })

  it('are taken once and as they are written, also with a name for the host', () => {
    expect(serviceUrls(['HTTP://Camera.example:80/A', 'HTTP://Camera.example:80/A'], policy)).toEqual([
      'HTTP://Camera.example:80/A',
    ])
  })

  it.each([
    ['of another network', 'http://192.168.1.1/'],
    ['of this machine', 'http://127.0.0.1:10250/pods'],
    ['of this machine by another spelling', 'http://0x7f.1/'],
    ['with a user name', 'http://root@10.0.0.1/'],
    ['of another kind', 'ftp://10.0.0.1/'],
    ['that are none', 'device_service'],
  ])('are not asked when they are %s', (_what, xAddr) => {
    expect(serviceUrls([xAddr], policy)).toEqual([])
  })
})
