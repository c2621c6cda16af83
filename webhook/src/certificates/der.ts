// The part of ASN.1's distinguished encoding (ITU-T X.690) that X.509 certificates need. Writing
// only.

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

/** A tag, a length and a value. */
function tagged(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts)
  return Buffer.concat([Buffer.from([tag, ...lengthOf(content)]), content])
}

/** A length up to 127 takes one byte. A longer length is preceded by the number of its bytes. */
function lengthOf({ length }: Uint8Array): number[] {
  if (length < 0x80) return [length]
  const bytes: number[] = []
  for (let rest = length; rest > 0; rest = Math.floor(rest / 256)) bytes.unshift(rest % 256)
  return [0x80 | bytes.length, ...bytes]
}

export const sequence = (...items: readonly Uint8Array[]) => tagged(SEQUENCE, ...items)
/** A set of one item: several items would have to be sorted. */
export const setOf = (item: Uint8Array) => tagged(SET, item)
export const octetString = (bytes: Uint8Array) => tagged(OCTET_STRING, bytes)
export const utf8String = (text: string) => tagged(UTF8_STRING, Buffer.from(text, 'utf8'))
export const boolean = (value: boolean) => tagged(BOOLEAN, Buffer.from([value ? 0xff : 0]))

/** A number >= 0, the most significant byte first. A leading zero is written only as a sign. */
export function integer(bytes: Uint8Array): Buffer {
  const first = bytes.findIndex((byte) => byte !== 0)
  const digits = first < 0 ? Buffer.from([0]) : bytes.subarray(first)
  return tagged(INTEGER, Buffer.from((digits[0] ?? 0) >= 0x80 ? [0] : []), digits)
}

/** @param unused the number of unused bits at the end of the last byte */
export const bitString = (bytes: Uint8Array, unused = 0) =>
  tagged(BIT_STRING, Buffer.from([unused]), bytes)

/** @param dotted such as `2.5.29.17` */
export function objectIdentifier(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split('.').map(Number)
  return tagged(OBJECT_IDENTIFIER, Buffer.from([first * 40 + second, ...rest.flatMap(base128)]))
}

/** Seven bits in each byte. The highest bit of a byte tells that another byte follows. */
function base128(value: number): number[] {
  const bytes = [value % 128]
  for (let rest = Math.floor(value / 128); rest > 0; rest = Math.floor(rest / 128))
    bytes.unshift((rest % 128) | 0x80)
  return bytes
}

/** A time in whole seconds. Up to 2049 the year has two digits (RFC 5280 4.1.2.5). */
export function time(date: Date): Buffer {
  const digits = date.toISOString().replace(/[-:T]|\.\d+/g, '')
  return date.getUTCFullYear() < 2050
    ? tagged(UTC_TIME, Buffer.from(digits.slice(2), 'ascii'))
    : tagged(GENERALIZED_TIME, Buffer.from(digits, 'ascii'))
}

/**
 * A context-specific tag `[number]`.
 * @param constructed whether the content consists of tagged values
 */
export function context(number: number, content: Uint8Array, constructed: boolean): Buffer {
  return tagged((constructed ? 0xa0 : 0x80) | number, content)
}
