import { isUtf8 } from 'node:buffer'

// The kernel's names are bytes: a network link can have any name. A byte that is not UTF-8 becomes
// a lone surrogate, U+DC80 to U+DCFF (as in PEP 383), so that the name can be encoded again.

/** Decodes UTF-8 and other bytes. */
export function decodeBytes(bytes: Buffer): string {
  if (isUtf8(bytes)) return bytes.toString('utf8')
  let text = ''
  for (let at = 0; at < bytes.length; ) {
    const length = lengthOf(bytes[at] ?? 0)
    const character = bytes.subarray(at, at + length)
    if (character.length === length && isUtf8(character)) text += character.toString('utf8')
    else text += String.fromCharCode(0xdc00 + (bytes[at] ?? 0))
    at += isUtf8(character) ? length : 1
  }
  return text
}

/** The bytes of a decoded text. A text in UTF-8 stays a text, which is faster. */
export function encodeBytes(text: string): string | Buffer {
  if (!hasBytes(text)) return text
  return Buffer.concat(
    [...text].map((character) =>
      hasBytes(character)
        ? Buffer.from([character.charCodeAt(0) & 0xff])
        : Buffer.from(character, 'utf8'),
    ),
  )
}

/** Whether a decoded text has bytes that are not UTF-8. */
export function hasBytes(text: string): boolean {
  return /\p{Surrogate}/u.test(text)
}

/** The text with such bytes as `\xff`, as udev writes them. */
export function escapeBytes(text: string): string {
  return text.replace(
    /\p{Surrogate}/gu,
    (byte) => `\\x${(byte.charCodeAt(0) & 0xff).toString(16).padStart(2, '0')}`,
  )
}

/** The number of bytes of a character in UTF-8, by its first byte. */
function lengthOf(first: number): number {
  if (first >= 0xf0) return 4
  if (first >= 0xe0) return 3
  return first >= 0xc0 ? 2 : 1
}
