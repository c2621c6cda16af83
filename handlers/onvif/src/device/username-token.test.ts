import { describe, expect, it } from 'vitest'
import { parseXml } from '../xml/xml.js'
import { passwordDigest, usernameToken } from './username-token.js'

describe('a UsernameToken', () => {
  it('has the digest of the example in the ONVIF Application Programmer’s Guide', () => {
    const nonce = Buffer.from('LKqI6G/AikKCQrN0zqZFlg==', 'base64')
    expect(passwordDigest(nonce, '2010-09-16T07:50:45Z', 'userpassword')).toBe(
      'tuOSpGlFlIXsozq4HFNeeGeFLEI=',
    )
  })

  it('has the name, a digest, its nonce and time, but not the password', () => {
    const nonce = Buffer.from('0123456789abcdef')
    const xml = usernameToken(
      { username: 'a<b&"c"', password: 'hunter2' },
      Date.UTC(2026, 0, 2, 3, 4, 5),
      nonce,
    )
    const security = parseXml(
      xml.replace('<Security', '<Security xmlns:s="http://www.w3.org/2003/05/soap-envelope"'),
    )
    const token = security.find('UsernameToken')
    const texts = ['Username', 'Password', 'Nonce', 'Created'].map((name) => token?.textOf(name))
    const created = '2026-01-02T03:04:05.000Z'
    expect(texts).toEqual([
      'a<b&"c"',
      passwordDigest(nonce, created, 'hunter2'),
      nonce.toString('base64'),
      created,
    ])
    expect(token?.find('Password')?.attributes.get('Type')).toMatch(/#PasswordDigest$/)
    expect(xml).not.toContain('hunter2')
  })

  it('differs each time', () => {
    const token = () => usernameToken({ username: 'a', password: 'b' }, 0)
    expect(new Set(Array.from({ length: 100 }, token)).size).toBe(100)
  })
})
