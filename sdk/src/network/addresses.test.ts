import { describe, expect, it } from 'vitest'
import { addressOfUrl, plainAddress } from './addresses.js'

describe('the address in a URL', () => {
  it.each([
    ['http://10.0.0.5/o', '10.0.0.5'],
    ['http://[::ffff:10.0.0.5]/o', '10.0.0.5'],
    ['opc.tcp://[::FFFF:a00:5]:4840/', '10.0.0.5'],
    ['http://[FD12:0::7]:8080/', 'fd12::7'],
    ['http://camera.example/', undefined],
    ['10.0.0.5', undefined],
  ])('is the plain address, which others can write in another way: %s', (url, address) => {
    expect(addressOfUrl(url)).toBe(address)
  })
})

describe('the plain address', () => {
  it('is found in a time that grows with the length of the text', () => {
    const text = `${'%'.repeat(300_000)}\n`
    expect(plainAddress(`fe80::7${text}`)).toBe('fe80::7')
    expect(plainAddress('FE80:0::7%eth0')).toBe('fe80::7')
  })
})
