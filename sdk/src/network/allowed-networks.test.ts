import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { AllowedNetworks, type Network, readNetwork } from './allowed-networks.js'

function networks(...texts: string[]): Network[] {
  return texts.map((text) => readNetwork(text) ?? expect.fail(`${text} is not a network`))
}

const lan = new AllowedNetworks(networks('192.168.1.0/24', 'fd12::/64', 'fe80::/10'))

describe('allowed networks', () => {
  it.each([
    ['192.168.1.64/26', { address: '192.168.1.64', prefix: 26, family: 'ipv4' }],
    ['10.0.0.1', { address: '10.0.0.1', prefix: 32, family: 'ipv4' }],
    ['fd12::/64', { address: 'fd12::', prefix: 64, family: 'ipv6' }],
    ['::1', { address: '::1', prefix: 128, family: 'ipv6' }],
    ['10.0.0.0/33', undefined],
    ['10.0.0.0/-1', undefined],
    ['10.0.0.0/8/8', undefined],
    ['10.0.0/8', undefined],
    ['fe80::1%eth0/64', undefined],
    ['camera.example/24', undefined],
    ['', undefined],
  ])('are read: %s', (text, network) => {
    expect(readNetwork(text)).toEqual(network)
  })

  it.each([
    ['192.168.1.7', true],
    ['192.168.2.7', false],
    ['::ffff:192.168.1.7', true],
    ['::ffff:c0a8:107', true],
    ['::ffff:10.0.0.1', false],
    ['fd12::7', true],
    ['fd12:0:0:1::7', false],
    ['fe80::1%eth0', true],
    ['127.0.0.1', false],
    ['::1', false],
    ['169.254.169.254', false],
    ['camera.example', false],
    ['', false],
  ])('allow or refuse %s', (address, allowed) => {
    expect(lan.allows(address)).toBe(allowed)
  })

  it('allow this machine, cloud metadata and groups only by their own networks', () => {
    const special = [
      '127.0.0.1',
      '::1',
      '::ffff:127.0.0.1',
      '0.0.0.0',
      '::',
      '169.254.169.254',
      'fd00:ec2::254',
      '239.255.255.250',
      'ff02::c',
    ]
    const wide = new AllowedNetworks(networks('0.0.0.0/0', '::/0', '169.254.0.0/16'))
    expect(special.filter((address) => wide.allows(address))).toEqual([])
    expect(
      ['10.1.2.3', '169.254.1.1', '2001:db8::1'].every((address) => wide.allows(address)),
    ).toBe(true)
    const named = new AllowedNetworks(
      networks('0.0.0.0/0', '127.0.0.0/8', '169.254.169.254/32', '::1'),
    )
    expect(special.filter((address) => named.allows(address))).toEqual([
      '127.0.0.1',
      '::1',
      '::ffff:127.0.0.1',
      '169.254.169.254',
    ])
  })

  it('allow an address of this machine only by its own network', () => {
    const ownAddresses = ['192.168.1.5', 'FD12:0::5', 'fe80::5%eth0', '127.0.0.1', '::1']
    const spellings = [
      '192.168.1.5',
      '::ffff:192.168.1.5',
      'fd12::5',
      'fe80::5',
      'fe80::5%eth1',
      '127.0.0.1',
      '::1',
    ]
    const all = ['192.168.1.0/24', 'fd12::/64', 'fe80::/10']
    const allowed = (...more: string[]) => {
      const list = new AllowedNetworks(networks(...all, ...more), { ownAddresses })
      expect(
        ['192.168.1.6', 'fd12::6', 'fe80::6%eth0'].every((address) => list.allows(address)),
      ).toBe(true)
      return spellings.filter((address) => list.allows(address))
    }
    expect(allowed()).toEqual([])
    expect(allowed('192.168.1.4/30', 'fd12::4/126')).toEqual([])
    expect(allowed('192.168.1.5', 'fd12:0:0::5/128')).toEqual([
      '192.168.1.5',
      '::ffff:192.168.1.5',
      'fd12::5',
    ])
    expect(allowed('127.0.0.0/8', '::1')).toEqual(['127.0.0.1', '::1'])
  })

  it('allow no address if there are no networks', () => {
    expect(new AllowedNetworks([]).allows('192.168.1.1')).toBe(false)
  })

  it('never throw, for any text', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.ipV4(), fc.ipV6(), fc.ipV4Extended()), (address) => {
        expect(typeof lan.allows(address)).toBe('boolean')
      }),
    )
  })
})
