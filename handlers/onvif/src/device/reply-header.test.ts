import { describe, expect, it } from 'vitest'
import { ReplyHeader } from './reply-header.js'

/** The bytes for the parser, if the reply comes in pieces of this size. */
function passed(text: string, size = text.length): string {
  const header = new ReplyHeader()
  const pieces: Buffer[] = []
  const bytes = Buffer.from(text, 'latin1')
  for (let at = 0; at < bytes.length; at += size)
    pieces.push(header.push(bytes.subarray(at, at + size)))
  return Buffer.concat([...pieces, header.end()]).toString('latin1')
}

const OK = 'HTTP/1.1 200 OK\r\n'

describe('the header of a reply', () => {
  it.each([
    ['two headers', `${OK}Content-Length: 5\r\nA: b\r\ncontent-length:5 \r\n\r\n`],
    ['one header with a list', `${OK}Content-Length: 5, 5\r\nA: b\r\n\r\n`],
  ])('has an equal Content-Length once: %s', (_what, header) => {
    for (const size of [1, 7, 1000])
      expect(passed(`${header}hello`, size)).toBe(`${OK}Content-Length: 5\r\nA: b\r\n\r\nhello`)
  })

  it.each([
    ['no colon', 'camera firmware 1.2'],
    ['a name with a space', 'Camera Name: x'],
    ['a name with a bracket', 'Na(me: x'],
    ['no name', ': x'],
    ['white space before the first', ' folded'],
    ['an empty length', 'Content-Length:'],
    ['no colon, and a folded line', 'camera\r\n firmware'],
  ])('has no line with %s', (_what, line) => {
    for (const size of [1, 1000])
      for (const before of ['', 'A: b\r\n']) {
        const rest = `B: c\r\n\r\n${line}`
        const folded = before !== '' && line.startsWith(' ') ? `${line}\r\n` : ''
        expect(passed(`${OK}${before}${line}\r\n${rest}`, size)).toBe(
          `${OK}${before}${folded}${rest}`,
        )
      }
  })

  it.each([
    ['no white space before a colon', 'Name \t: x y', 'Name: x y'],
    ['a space for a carriage return', 'Name: x\ry\r', 'Name: x y '],
  ])('is written as Node.js reads it: %s', (_what, line, expected) => {
    for (const size of [1, 1000])
      expect(passed(`${OK}${line}\r\n\r\nbody`, size)).toBe(`${OK}${expected}\r\n\r\nbody`)
  })

  it.each([
    ['one length', `${OK}Content-Length: 5\r\n\r\n`],
    ['different lengths', `${OK}Content-Length: 5\r\nContent-Length: 6\r\n\r\n`],
    ['lengths that are no numbers', `${OK}Content-Length: x\r\nContent-Length: x\r\n\r\n`],
    ['no length', `${OK}A: \xe9\xff\r\n\r\n`],
    ['no end', `${OK}A: b`],
    ['no HTTP', '220 camera FTP server ready\r\n'],
    ['empty lines before', `\r\n\r\n${OK}A: b\r\n\r\n`],
    ['too many bytes', `${OK}${'A: bbbb\r\n'.repeat(5000)}`],
  ])('is not changed in any other case: %s', (_what, header) => {
    for (const size of [1, 1000]) {
      const text = `${header}Content-Length: 1\r\nContent-Length: 1\r\n\r\n`
      const body = header.endsWith('\r\n\r\n') ? text : header
      expect(passed(body, size)).toBe(body)
    }
  })

  it('may follow provisional replies', () => {
    const hints = 'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(3)
    const header = `${OK}Content-Length: 5\r\n`
    expect(passed(`${hints}${header}Content-Length: 5\r\n\r\nhello`, 10)).toBe(
      `${hints}${header}\r\nhello`,
    )
  })
})
