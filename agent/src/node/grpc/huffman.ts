import { ProtocolViolationError } from '../../errors.js'
import { Http2Error } from './frames.js'

/** The bits of the code of each byte, and of the end of a text (RFC 7541, appendix B). */
const LENGTHS = [
  13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
  28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5,
  6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
  7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6,
  7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23,
  23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22,
  22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22,
  23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27,
  27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25,
  24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
] as const
const END = 256
const LONGEST = 30

/** Codes of one length are consecutive numbers, in the order of their bytes. */
interface CodesOfLength {
  readonly first: number
  readonly symbols: readonly number[]
}

const CODES = codesByLength()

/** Decodes a text of a header (RFC 7541, section 5.2). @throws ProtocolViolationError */
export function decodeHuffman(bytes: Uint8Array): string {
  let text = ''
  let code = 0
  let length = 0
  for (const byte of bytes) {
    for (let bit = 7; bit >= 0; bit--) {
      code = (code << 1) | ((byte >> bit) & 1)
      length++
      const symbol = symbolOf(code, length)
      if (symbol === undefined) {
        if (length >= LONGEST) throw violation('there is no such code')
        continue
      }
      if (symbol === END) throw violation('the end of the text is within the text')
      text += String.fromCharCode(symbol)
      code = 0
      length = 0
    }
  }
  if (length > 7 || code !== (1 << length) - 1) throw violation('the text ends within a code')
  return text
}

function symbolOf(code: number, length: number): number | undefined {
  const codes = CODES[length]
  return codes?.symbols[code - codes.first]
}

function codesByLength(): readonly CodesOfLength[] {
  const codes: CodesOfLength[] = []
  let first = 0
  for (let length = 0; length <= LONGEST; length++) {
    const symbols = [...LENGTHS.keys()].filter((symbol) => LENGTHS[symbol] === length)
    codes.push({ first, symbols })
    first = (first + symbols.length) << 1
  }
  return codes
}

function violation(what: string): ProtocolViolationError {
  return new ProtocolViolationError(`Huffman code of a header: ${what}`, Http2Error.compression)
}
