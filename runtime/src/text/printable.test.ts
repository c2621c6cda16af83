import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { MAX_MESSAGE_BYTES, objectMessage, printable, printableLines } from './printable.js'

/**
 * Cursor movement, a window title, C1, DEL, NUL, bidi controls, separators, half a surrogate pair.
 */
const HOSTILE = [
  '\u001b[2J',
  '\u001b]0;owned\u0007',
  '\u009b1m',
  '\u007f',
  '\u0000',
  '\r',
  '\b',
  '\u202e',
  '\u2066',
  '\u200f',
  '\u061c',
  '\u2028',
  '\u2029',
  '\ud800',
  '\udc00',
]
const hostile = fc
  .array(
    fc.oneof(fc.constantFrom(...HOSTILE, '\n', '\t', '\r\n', '| '), fc.string({ unit: 'binary' })),
  )
  .map((parts) => parts.join(''))

const OBEYED = /[\p{Cc}\p{Bidi_C}\p{Zl}\p{Zp}\p{Cs}]/u
const OBEYED_IN_LINES = /(?![\t\n])[\p{Cc}\p{Bidi_C}\p{Zl}\p{Zp}\p{Cs}]/u

describe('a printable text', () => {
  it.each(HOSTILE)('has no %j', (text) => {
    expect(printable(`a${text}b`)).toMatch(/^a\ufffd\P{Cc}*b$/u)
    expect(printableLines(`a${text}b`)).toMatch(/^a\ufffd\P{Cc}*b$/u)
    expect(objectMessage(`a${text}b`)).toMatch(/^a\ufffd\P{Cc}*b$/u)
  })

  it('keeps all other characters', () => {
    for (const text of ['grün', 'カメラ 1', 'مرحبا', '👩‍🔬', '🏴󠁧󠁢󠁥󠁮󠁧󠁿', "rtsp://[::1]:554/a?b='c'"]) {
      expect(printable(text)).toBe(text)
      expect(printableLines(text)).toBe(text)
      expect(objectMessage(text)).toBe(text)
    }
  })

  it('keeps tabs and lines where programs read them', () => {
    const certificate = '-----BEGIN CERTIFICATE-----\nMIIB\tx\n-----END CERTIFICATE-----\n'
    expect(printableLines(certificate)).toBe(certificate)
    expect(printableLines(certificate.replaceAll('\n', '\r\n'))).toBe(certificate)
    expect(printable('a\tb\n')).toBe('a\ufffdb\ufffd')
  })

  it('is what it was, if it is made printable again, for any text', () => {
    fc.assert(
      fc.property(hostile, (text) => {
        for (const make of [printable, printableLines, objectMessage]) {
          const once = make(text)
          expect(make(once)).toBe(once)
          // What an API server reads from JSON in UTF-8 is the same text: no write is repeated.
          expect(Buffer.from(once, 'utf8').toString('utf8')).toBe(once)
        }
        expect(printable(text)).not.toMatch(OBEYED)
        expect(printableLines(text)).not.toMatch(OBEYED_IN_LINES)
        expect(objectMessage(text)).not.toMatch(OBEYED_IN_LINES)
      }),
    )
  })
})

describe('the message of an object', () => {
  it('marks its further lines, so that none passes for a line of kubectl', () => {
    const forged = 'no such host\n    Status:  True\r\nEvents:\n\tNormal  AllDevicesServed\n'
    expect(objectMessage(forged)).toBe(
      'no such host\n|     Status:  True\n| Events:\n|  Normal  AllDevicesServed',
    )
  })

  it('keeps a caret below its character', () => {
    const [, line = '', caret = ''] = objectMessage('line 1\n  KERNEL=="a"\n        ^').split('\n')
    expect(line[caret.indexOf('^')]).toBe('=')
  })

  it('has no password of a URL, also if it is cut', () => {
    const url = 'http://me:hunter2@hub/'
    expect(objectMessage(`cannot read ${url}`)).toBe('cannot read http://me:***@hub/')
    for (let room = 0; room < url.length; room++)
      expect(objectMessage('x'.repeat(MAX_MESSAGE_BYTES - room) + url)).not.toContain('hun')
  })

  it('has a bound in bytes, and no half of a character at its end, for any text', () => {
    expect(objectMessage('x'.repeat(MAX_MESSAGE_BYTES))).toBe('x'.repeat(MAX_MESSAGE_BYTES))
    expect(objectMessage('x'.repeat(MAX_MESSAGE_BYTES + 1))).toBe(
      `${'x'.repeat(MAX_MESSAGE_BYTES - 3)}…`,
    )
    expect(objectMessage('x'.repeat(100_000_000))).toHaveLength(MAX_MESSAGE_BYTES - 2)
    fc.assert(
      fc.property(hostile, fc.nat(2000), (text, padding) => {
        const message = objectMessage(`${'x'.repeat(padding)}${text.repeat(20)}`)
        expect(Buffer.byteLength(message)).toBeLessThanOrEqual(MAX_MESSAGE_BYTES)
        expect(message).not.toMatch(/\p{Cs}/u)
      }),
    )
  })
})
