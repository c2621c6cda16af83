// Read Device Identification: MODBUS Application Protocol V1.1b3, 6.21; over TCP: MODBUS Messaging
// on TCP/IP Implementation Guide V1.0b, 3.1.3. Pure.

const FUNCTION = 0x2b
const MEI_TYPE = 0x0e
/** Set in the function of an answer that refuses the request. */
const REFUSED = 0x80
const HEADER_BYTES = 6
/** Of a unit id and the longest PDU. */
const MAX_BODY_BYTES = 254

/** How much of its identification a unit is asked for. */
export const LEVEL = { basic: 1, regular: 2 } as const

/** The objects of the regular level, each at the place of its id. */
export const OBJECTS = [
  'VENDOR_NAME',
  'PRODUCT_CODE',
  'REVISION',
  'VENDOR_URL',
  'PRODUCT_NAME',
  'MODEL_NAME',
  'APPLICATION_NAME',
] as const

/** What a unit says of itself, as far as it says it. */
export type Identification = Readonly<Partial<Record<(typeof OBJECTS)[number], string>>>

export interface Request {
  readonly transaction: number
  readonly unit: number
  readonly level: number
  /** The id of the first object. */
  readonly object: number
}

/** The code of an exception; or objects, and the id of the object that follows. */
export type Answer =
  | { readonly exception: number }
  | { readonly objects: Identification; readonly next?: number | undefined }

export function identificationRequest({ transaction, unit, level, object }: Request): Buffer {
  const bytes = Buffer.from([0, 0, 0, 0, 0, 5, unit, FUNCTION, MEI_TYPE, level, object])
  bytes.writeUInt16BE(transaction)
  return bytes
}

/** An answer with its transaction and its unit. */
export interface Frame {
  readonly transaction: number
  readonly unit: number
  readonly answer: Answer
  /** The bytes after the answer. */
  readonly rest: Buffer
}

/** Undefined until the answer is complete. @throws an Error if the bytes are not Modbus */
export function readFrame(bytes: Buffer): Frame | undefined {
  if (bytes.length < HEADER_BYTES) return undefined
  const length = bytes.readUInt16BE(4)
  if (bytes.readUInt16BE(2) !== 0 || length < 2 || length > MAX_BODY_BYTES)
    throw new TypeError('another protocol')
  const body = bytes.subarray(HEADER_BYTES, HEADER_BYTES + length)
  return body.length < length
    ? undefined
    : {
        transaction: bytes.readUInt16BE(0),
        unit: body.readUInt8(0),
        answer: readAnswer(body.subarray(1)),
        rest: bytes.subarray(HEADER_BYTES + length),
      }
}

/** An answer to another request, or a broken one, is an answer without objects: a unit is there. */
function readAnswer(pdu: Buffer): Answer {
  const [code, type = 0, , , more, next, , ...list] = pdu
  if (code === (FUNCTION | REFUSED)) return { exception: type }
  if (code !== FUNCTION || type !== MEI_TYPE) return { objects: {} }
  const objects: Record<string, string> = {}
  // Devices fill in the number of objects as the example of the specification does, which counts
  // those of later answers too: the end of the answer counts.
  for (let at = 0; at + 1 < list.length; at += 2 + (list[at + 1] ?? 0)) {
    const [id = 0, length = 0] = list.slice(at, at + 2)
    const name = OBJECTS[id]
    const value = printable(Buffer.from(list.slice(at + 2, at + 2 + length)))
    if (name !== undefined && value !== undefined) objects[name] ??= value
  }
  return { objects, next: more === 0xff ? next : undefined }
}

/** A value goes into the environment of containers. Devices pad texts with zeros and spaces. */
function printable(bytes: Buffer): string | undefined {
  const text = bytes.toString('utf8').replaceAll('\0', ' ').trim()
  return text === '' || /[\p{C}\uFFFD]/u.test(text) ? undefined : text
}
