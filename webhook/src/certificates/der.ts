// Of ASN.1's distinguished encoding (ITU-T X.690) what an X.509 certificate is written with. Nothing here reads any.

const BOOLEAN = 0x01
const INTEGER = 0x02
const BIT_STRING = 0x03
const OCTET_STRING = 0x04
const OBJECT_IDENTIFIER = 0x06
const UTF8_STRING = 0x0c
const UTC_TIME = 0x17
const GENERALIZED_TIME = 0x18
const SEQUENCE = 0x30
const SET = 0x31

/** A value behind its tag and its length. */
function tagged(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts)
  return Buffer.concat([Buffer.from([tag, ...lengthOf(content)]), content])
}

/** Up to 127 in one byte; else the number of bytes that it takes, and these. */
function lengthOf({ length }: Uint8Array): number[] {
  if (length < 0x80) return [length]
  const bytes: number[] = []
  for (let rest = length; rest > 0; rest = Math.floor(rest / 256)) bytes.unshift(rest % 256)
  return [0x80 | bytes.length, ...bytes]
}

export const sequence = (...items: readonly Uint8Array[]) => tagged(SEQUENCE, ...items)
/** Of one item: more would have to be sorted. */
export const setOf = (item: Uint8Array) => tagged(SET, item)
export const octetString = (bytes: Uint8Array) => tagged(OCTET_STRING, bytes)
export const utf8String = (text: string) => tagged(UTF8_STRING, Buffer.from(text, 'utf8'))
export const boolean = (value: boolean) => tagged(BOOLEAN, Buffer.from([value ? 0xff : 0]))

/** A number that is not negative, most significant byte first. Without zeros in front, but for a sign. */
export function integer(bytes: Uint8Array): Buffer {
  const first = bytes.findIndex((byte) => byte !== 0)
  const digits = first < 0 ? Buffer.from([0]) : bytes.subarray(first)
  return tagged(INTEGER, Buffer.from((digits[0] ?? 0) >= 0x80 ? [0] : []), digits)
}

/** @param unused bits at the end of the last byte */
export const bitString = (bytes: Uint8Array, unused = 0) =>
  tagged(BIT_STRING, Buffer.from([unused]), bytes)

/** @param dotted such as `2.5.29.17` */
export function objectIdentifier(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split('.').map(Number)
  return tagged(OBJECT_IDENTIFIER, Buffer.from([first * 40 + second, ...rest.flatMap(base128)]))
}

/** Seven bits in each byte; the highest says that there are more. */
function base128(value: number): number[] {
  const bytes = [value % 128]
  for (let rest = Math.floor(value / 128); rest > 0; rest = Math.floor(rest / 128))
    bytes.unshift((rest % 128) | 0x80)
  return bytes
}

/** Whole seconds. Up to 2049 the year has two digits (RFC 5280 4.1.2.5). */
export function time(date: Date): Buffer {
  const digits = date.toISOString().replace(/[-:T]|\.\d+/g, '')
  return date.getUTCFullYear() < 2050
    ? tagged(UTC_TIME, Buffer.from(digits.slice(2), 'ascii'))
    : tagged(GENERALIZED_TIME, Buffer.from(digits, 'ascii'))
}

/** `[number]` around or in place of a tag. @param constructed whether there are whole values inside */
export function context(number: number, content: Uint8Array, constructed: boolean): Buffer {
  return tagged((constructed ? 0xa0 : 0x80) | number, content)
}
