import { deflateRawSync, deflateSync, gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { documentOf, type WrittenBody } from './reply-body.js'

const MAX_BYTES = 1000
const read = (body: Buffer, header: Partial<WrittenBody> = {}) =>
  documentOf({ contentType: '', contentEncoding: '', ...header, body }, MAX_BYTES).bytes.toString()

describe('the body of a reply', () => {
  it.each([
    ['zlib', deflateSync],
    ['raw deflate', deflateRawSync],
    ['gzip', gzipSync],
  ])('may be compressed as deflate: %s', (_how, compress) => {
    for (const level of [0, 1, 9])
      for (const text of ['<a/>', 'x'.repeat(MAX_BYTES), '']) {
        const bytes = compress(text, { level })
        expect(read(bytes, { contentEncoding: 'deflate' })).toBe(text)
      }
  })

  it.each([
    ['zlib', deflateSync],
    ['raw deflate', deflateRawSync],
  ])('has a limit, also if it is compressed: %s', (_how, compress) => {
    const bytes = compress('x'.repeat(MAX_BYTES + 1))
    for (const body of [bytes, bytes.subarray(0, 5), Buffer.alloc(0), Buffer.from('<a/>')])
      expect(() => read(body, { contentEncoding: 'deflate' })).toThrow(
        expect.objectContaining({ code: 'AKRI_ERR_ONVIF_REPLY' }),
      )
  })

  it.each([
    ['<root>', '<root>'],
    ['root', '<root>'],
    ['<root>', 'root'],
    ['root', 'root'],
    ['root@camera', ' <root@camera> '],
  ])('is the part with the Content-ID of start, with any brackets: %s, %s', (start, id) => {
    const part = (id: string, text: string) => `--x\r\nContent-ID: ${id}\r\n\r\n${text}\r\n`
    const body = Buffer.from(`${part('<picture>', '...')}${part(id, '<a/>')}--x--`)
    const contentType = `multipart/related; boundary=x; start="${start}"`
    expect(read(body, { contentType }).trim()).toBe('<a/>')
    const other = contentType.replace('start="', 'start="other.')
    expect(() => read(body, { contentType: other })).toThrow('no root part')
  })

  it.each([
    ['within a line', '<a>--x --x--</a>'],
    ['with a longer name', '<a>\r\n--xy\r\n--x1--\r\n</a>'],
  ])('contains the text of a delimiter that is none: %s', (_where, text) => {
    const contentType = 'multipart/related; boundary=x'
    for (const end of ['\r\n--x--', '\r\n--x \r\n', '\n--x', ''])
      for (const preamble of ['', 'a --x\r\n\r\nb\r\n']) {
        const body = Buffer.from(`${preamble}--x\r\nA: b\r\n\r\n${text}${end}`)
        expect(read(body, { contentType }).trim()).toBe(text)
      }
  })

  it.each(['', '--x', '--x--', '\r\n', '\n--x--\r\n', '\r\n--x--epilogue'])(
    'ends with the last delimiter, which may lack, also its line break: %j',
    (end) => {
      const body = Buffer.from(`--x\r\n\r\n<a/>${end}`)
      const text = read(body, { contentType: 'multipart/related; boundary=x' })
      // What stands where no delimiter may be is content.
      expect(text.trim()).toBe(end === '--x' ? '<a/>--x' : '<a/>')
    },
  )

  it('is not a part with a long header, whatever characters the header has', () => {
    const body = Buffer.from(`--x\r\nA:${' \r'.repeat(100_000)}b\r\n\r\n<a/>\r\n--x--`)
    expect(() => read(body, { contentType: 'multipart/related; boundary=x' })).toThrow(
      'a part of the multipart answer has a header of 200005 bytes, more than 4096',
    )
  })

  it('is a part whose header has white space around names and values', () => {
    const body = Buffer.from(`--x\nContent-ID \t:  <root> \r\n: x\nnone\n\n<a/>\n--x--`)
    const contentType = 'multipart/related; boundary=x; start=root'
    expect(read(body, { contentType }).trim()).toBe('<a/>')
  })
})
