import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { fuzz } from '../../../../test/support/fuzz.js'
import { chooseChallenge, DigestAnswer } from './http-digest.js'

const { parameters, timeoutMs } = fuzz({ runs: 1000 })

const NONCE = '7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v'
const CNONCE = 'f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ'
const REST =
  'realm="http-auth@example.org", qop="auth, auth-int", ' +
  `nonce="${NONCE}", opaque="FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS"`
const mufasa = { username: 'Mufasa', password: 'Circle of Life' }
const request = { method: 'GET', uri: '/dir/index.html' }

function answer(header: string, credential = mufasa, cnonce = CNONCE) {
  const challenge = chooseChallenge([header])
  if (challenge === undefined) expect.fail(`no challenge in ${header}`)
  return new DigestAnswer(challenge, credential, () => cnonce)
}

const field = (authorization: string, name: string) =>
  new RegExp(`\\b${name}="?([^",]*)`).exec(authorization)?.[1]

describe('HTTP digest authentication', () => {
  it.each([
    ['MD5', '8ca523f5e9506fed4657c9700eebdbec'],
    ['SHA-256', '753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1'],
  ])('answers as section 3.9.1 of RFC 7616 does, by %s', (algorithm, response) => {
    const authorization = answer(`Digest ${REST}, algorithm=${algorithm}`).authorization(request)
    expect(
      Object.fromEntries(
        ['response', 'algorithm', 'qop', 'nc'].map((name) => [name, field(authorization, name)]),
      ),
    ).toEqual({
      response,
      algorithm,
      qop: 'auth',
      nc: '00000001',
    })
  })

  it('answers as RFC 2617 does', () => {
    const header =
      'Digest realm="testrealm@host.com", qop="auth,auth-int", ' +
      'nonce="dcd98b7102dd2f0e8b11d0f600bfb0c093", opaque="5ccc069c403ebaf9f0171e9517f40e41"'
    const authorization = answer(
      header,
      { username: 'Mufasa', password: 'Circle Of Life' },
      '0a4f113b',
    ).authorization(request)
    expect(field(authorization, 'response')).toBe('6629fae49393a05397450978507c4ef1')
  })

  it('answers servers without qop as RFC 2069 with its erratum does', () => {
    const header = 'Digest realm="testrealm@host.com", nonce="dcd98b7102dd2f0e8b11d0f600bfb0c093"'
    const authorization = answer(header, {
      username: 'Mufasa',
      password: 'CircleOfLife',
    }).authorization(request)
    expect(field(authorization, 'response')).toBe('1949323746fe6a43ef61f9606e7febea')
    expect(authorization).not.toMatch(/qop|nc=|cnonce/)
  })

  it('counts the requests of one nonce', () => {
    const digest = answer(`Digest ${REST}`)
    const counts = Array.from({ length: 17 }, () => field(digest.authorization(request), 'nc'))
    expect([counts[0], counts[9], counts[16]]).toEqual(['00000001', '0000000a', '00000011'])
  })

  it('chooses the strongest challenge that it can answer', () => {
    const nonce = (...headers: string[]) => chooseChallenge(headers)?.nonce
    expect(
      nonce('Digest realm="a", nonce="md5"', 'Digest realm="a", nonce="sha", algorithm=SHA-256'),
    ).toBe('sha')
    expect(nonce('Basic realm="a, b", Digest realm="a", nonce="1", qop="auth", Bearer')).toBe('1')
    expect(
      nonce('Digest realm="a",nonce="md5",Digest realm="a",nonce="sha",algorithm="sha-256"'),
    ).toBe('sha')
    expect(nonce('Basic realm="a"')).toBeUndefined()
    expect(nonce('Digest realm="a", nonce="1", qop="auth-int"')).toBeUndefined()
    expect(nonce('Digest realm="a", nonce="1", algorithm=SHA-512-256')).toBeUndefined()
    expect(nonce('Digest realm="a"')).toBeUndefined()
    expect(nonce('Negotiate YWJj==')).toBeUndefined()
    expect(nonce()).toBeUndefined()
  })

  it('escapes a user name or realm that could end a field', () => {
    const digest = (username: string) =>
      answer('Digest realm="a\\"b\\\\", nonce="1"', { username, password: '' }).authorization(
        request,
      )
    expect(digest('a"b, c=\\')).toContain('username="a\\"b, c=\\\\", realm="a\\"b\\\\"')
    expect(digest('Jäsøn Doe')).toContain("username*=UTF-8''J%C3%A4s%C3%B8n%20Doe")
    expect(digest('a\r\nX: y')).toContain("username*=UTF-8''a%0D%0AX%3A%20y")
  })

  it('hashes the bytes of the realm and the nonce that the camera sent', () => {
    const md5 = (text: string) => createHash('md5').update(text, 'latin1').digest('hex')
    // In Latin-1, in UTF-8 and in GB 18030.
    for (const realm of ['Caf\xe9', 'Caf\xc3\xa9', '\xc9\xe3\xcf\xf1'])
      for (const nonce of ['1', '\xe9']) {
        const digest = answer(`Digest realm="${realm}", nonce="${nonce}"`).authorization(request)
        const secret = md5(`Mufasa:${realm}:Circle of Life`)
        const response = md5(`${secret}:${nonce}:${md5('GET:/dir/index.html')}`)
        expect(digest).toContain(`realm="${realm}", nonce="${nonce}"`)
        expect(field(digest, 'response')).toBe(response)
      }
  })

  it('reads any header without an error, and answers in printable characters', {
    timeout: timeoutMs,
  }, () => {
    const piece = fc.constantFrom(
      'Digest ',
      'Basic ',
      'realm=',
      'nonce=',
      '"a"',
      '"',
      '\\',
      ',',
      ' ',
      '=',
      'qop="auth"',
      'algorithm=MD5',
      'é',
      'a',
    )
    fc.assert(
      fc.property(
        fc.array(piece, { maxLength: 30 }),
        fc.string({ unit: 'grapheme' }),
        (pieces, username) => {
          const challenge = chooseChallenge([pieces.join('')])
          if (challenge === undefined) return
          expect(
            new DigestAnswer(challenge, { username, password: 'p' }).authorization(request),
          ).toMatch(/^[\x20-\xff]*$/)
        },
      ),
      parameters,
    )
  })

  it.each([
    ['many words', `Digest ${'a '.repeat(8000)}`],
    ['an open text of backslashes', `Digest a="${'\\'.repeat(16_000)}`],
    ['white space', `${' '.repeat(16_000)}x`],
    ['one word', 'a'.repeat(16_000)],
  ])('finds no challenge in the longest header: %s', (_what, header) => {
    expect(chooseChallenge([header])).toBeUndefined()
  })
})
