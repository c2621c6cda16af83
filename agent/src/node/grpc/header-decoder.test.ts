import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ProtocolViolationError } from '../../errors.js'
import { HeaderDecoder } from './header-decoder.js'

const hex = (text: string) => Buffer.from(text.replaceAll(' ', ''), 'hex')
const decode = (...blocks: string[]) => {
  const decoder = new HeaderDecoder()
  return blocks.map((block) => Object.fromEntries(decoder.decode(hex(block)))).at(-1)
}
function refusal(block: Buffer): ProtocolViolationError {
  try {
    new HeaderDecoder().decode(block)
  } catch (error) {
    expect(error).toBeInstanceOf(ProtocolViolationError)
    return error as ProtocolViolationError
  }
  return expect.fail('it was accepted')
}

describe('the decoder of headers', () => {
  const first = {
    ':method': 'GET',
    ':scheme': 'http',
    ':path': '/',
    ':authority': 'www.example.com',
  }
  const third = {
    ':method': 'GET',
    ':scheme': 'https',
    ':path': '/index.html',
    ':authority': 'www.example.com',
    'custom-key': 'custom-value',
  }

  it('reads the requests of RFC 7541, C.3, without Huffman codes', () => {
    const blocks = [
      '8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d',
      '8286 84be 5808 6e6f 2d63 6163 6865',
      '8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65',
    ]
    expect(decode(...blocks.slice(0, 1))).toEqual(first)
    expect(decode(...blocks.slice(0, 2))).toEqual({ ...first, 'cache-control': 'no-cache' })
    expect(decode(...blocks)).toEqual(third)
  })

  it('reads the requests of RFC 7541, C.4, with Huffman codes', () => {
    const blocks = [
      '8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff',
      '8286 84be 5886 a8eb 1064 9cbf',
      '8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf',
    ]
    expect(decode(...blocks.slice(0, 1))).toEqual(first)
    expect(decode(...blocks.slice(0, 2))).toEqual({ ...first, 'cache-control': 'no-cache' })
    expect(decode(...blocks)).toEqual(third)
  })

  it('forgets the oldest fields of a full table, and all fields when the client asks', () => {
    const value = 'x'.repeat(2000)
    const field = (name: string) =>
      `40 01${Buffer.from(name).toString('hex')} 7fd10e ${Buffer.from(value).toString('hex')}`
    expect(decode(field('a') + field('b'), 'be bf')).toEqual({ a: value, b: value })
    const full = [field('a') + field('b') + field('c')]
    expect(decode(...full, 'be bf')).toEqual({ b: value, c: value })
    expect(() => decode(...full, 'c0')).toThrow('there is no field 64')
    expect(() => decode(field('a'), '20', 'be')).toThrow('there is no field 62')
  })

  it('keeps literals that are not to be remembered out of its table', () => {
    expect(decode('00 0161 0162', '10 0161 0163')).toEqual({ a: 'c' })
    expect(() => decode('00 0161 0162', '10 0161 0163', 'be')).toThrow('there is no field 62')
  })

  it.each([
    ['an index of no field', 'be'],
    ['the index 0', '80'],
    ['a name of no field', '7f00 0161'],
    ['a text without its end', '40 0161 05 6162'],
    ['a field without its value', '40 0161'],
    ['a number without its end', 'ff80'],
    ['a number that is too large', 'ffff ffff ffff 7f'],
    ['a table that is too large', '3fe2 1f'],
    ['a table that changes its size after a field', '82 20'],
    ['a Huffman code without its end', '40 0161 81 fe'],
    ['more than 7 bits after a Huffman code', '40 0161 82 1fff'],
    ['the end of a text within a text', '40 0161 84 ffff ffff'],
  ])('refuses %s', (_what, block) => {
    expect(refusal(hex(block)).http2Code).toBe(9)
  })

  it('refuses a short header that stands for a long one', () => {
    const value = Buffer.from('x'.repeat(3000)).toString('hex')
    const block = `40 0161 7fb916 ${value} ${'be'.repeat(1000)}`
    expect(refusal(hex(block)).http2Code).toBe(11)
  })

  it('reads or refuses any bytes', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 64 }), { maxLength: 5 }), (blocks) => {
        const decoder = new HeaderDecoder()
        try {
          for (const block of blocks) decoder.decode(Buffer.from(block))
        } catch (error) {
          expect(error).toBeInstanceOf(ProtocolViolationError)
        }
      }),
    )
  })
})
