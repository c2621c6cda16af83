import { Buffer } from 'node:buffer'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { decodeBytes, encodeBytes, escapeBytes, hasBytes } from './byte-text.js'

describe('the text of bytes', () => {
  it('has the same bytes again, for any bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 40 }), (bytes) => {
        expect(Buffer.from(encodeBytes(decodeBytes(Buffer.from(bytes))))).toEqual(
          Buffer.from(bytes),
        )
      }),
    )
  })

  it('is the text itself in UTF-8', () => {
    for (const text of ['', 'eth0', 'käse', '📷', '\ufffd']) {
      expect(decodeBytes(Buffer.from(text))).toBe(text)
      expect(encodeBytes(text)).toBe(text)
      expect(hasBytes(text)).toBe(false)
      expect(escapeBytes(text)).toBe(text)
    }
  })

  it.each([
    [[0x61, 0xff, 0x62], 'a\\xffb'],
    [[0xc3], '\\xc3'],
    [[0xe2, 0x82, 0x41], '\\xe2\\x82A'],
    [[0xed, 0xb2, 0x80], '\\xed\\xb2\\x80'],
    [[0xf0, 0x9f, 0x93, 0xb7, 0x80], '📷\\x80'],
  ])('escapes the bytes %j as %s', (bytes, escaped) => {
    expect(escapeBytes(decodeBytes(Buffer.from(bytes)))).toBe(escaped)
  })
})
