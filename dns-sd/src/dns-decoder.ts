// Decodes responses of multicast DNS. Pure: any machine on the network can send any bytes.
import {
  CLASS_IN,
  type DnsName,
  type DnsRecord,
  HEADER,
  isSameName,
  POINTER,
  type RecordBase,
  TYPES,
} from './dns-message.js'

/** The largest message in bytes (RFC 6762, section 17). */
export const MAX_MESSAGE = 9000
const KNOWN_TYPES: ReadonlySet<number> = new Set(Object.values(TYPES))
/** In the class of a record: the record replaces others. */
const TOP_BIT = 0x8000
/** RFC 1035, section 2.3.4, in bytes. */
const MAX_NAME = 255
const MAX_LABEL = 63
/**
 * A service name has four labels, a host name two or three. Longer names are valid, but ignored.
 */
const MAX_LABELS = 8
/**
 * The limit of records of one message. RFC 6762, section 17: only a single record may need more
 * than an Ethernet frame.
 */
const MAX_RECORDS = 128
/** The limit of strings of a TXT record; `path` and `caps` come early. */
const MAX_STRINGS = 64

/** Whether a message has the header of a valid response, and not of a query or an error. */
export function isResponse(message: Buffer): boolean {
  if (message.length < HEADER || message.length > MAX_MESSAGE) return false
  // A response, with the opcode 0 and the response code 0.
  return (message.readUInt16BE(2) & 0xf80f) === 0x8000
}

/**
 * The records with known types and with names of at most {@link MAX_LABELS} labels. Undefined for a
 * query, a broken message, or a message that RFC 6762, section 18, ignores.
 * @param types the only owners of PTR records that count @default any
 */
export function decodeResponse(
  message: Buffer,
  types?: readonly DnsName[],
): DnsRecord[] | undefined {
  if (!isResponse(message)) return undefined
  try {
    return readRecords(message, types)
  } catch (error) {
    if (error instanceof RangeError) return undefined
    throw error
  }
}

/** @throws RangeError if the message ends early or contains an invalid name */
function readRecords(message: Buffer, types: readonly DnsName[] | undefined): DnsRecord[] {
  const names = new MessageNames(message)
  const [questions, ...counts] = [4, 6, 8, 10].map((offset) => message.readUInt16BE(offset))
  let offset = HEADER
  for (let left = questions ?? 0; left > 0; left--) offset = endOfName(message, offset) + 4
  const records: DnsRecord[] = []
  const total = counts.reduce((sum, count) => sum + count, 0)
  // The size of the message bounds this loop: a wrong count ends in a RangeError.
  for (let left = total; left > 0 && records.length < MAX_RECORDS; left--) {
    const owner = offset
    const end = endOfName(message, owner)
    const recordType = message.readUInt16BE(end)
    const recordClass = message.readUInt16BE(end + 2)
    const data = end + 10
    offset = data + message.readUInt16BE(end + 8)
    if (offset > message.length) throw new RangeError('a record ends behind the message')
    if ((recordClass & ~TOP_BIT) !== CLASS_IN || !KNOWN_TYPES.has(recordType)) continue
    const name = names.at(owner)
    if (name === undefined) continue
    if (recordType === TYPES.PTR && types?.some((type) => isSameName(name, type)) === false)
      continue
    const base = { name, ttl: message.readUInt32BE(end + 4), flush: (recordClass & TOP_BIT) !== 0 }
    const record = readData(message, names, recordType, data, offset)
    if (record !== undefined) records.push({ ...base, ...record })
  }
  return records
}

type WithoutBase<R> = R extends RecordBase ? Omit<R, keyof RecordBase> : never

function readData(
  message: Buffer,
  names: MessageNames,
  type: number,
  start: number,
  end: number,
): WithoutBase<DnsRecord> | undefined {
  switch (type) {
    case TYPES.PTR: {
      const target = names.at(start)
      return target === undefined ? undefined : { type: 'PTR', target }
    }
    case TYPES.SRV: {
      const [port, target] = [message.readUInt16BE(start + 4), names.at(start + 6)]
      return target === undefined ? undefined : { type: 'SRV', port, target }
    }
    case TYPES.TXT:
      return { type: 'TXT', strings: readStrings(message, start, end) }
    case TYPES.A:
      return end - start === 4
        ? { type: 'A', address: message.subarray(start, end).join('.') }
        : undefined
    case TYPES.AAAA:
      return end - start === 16
        ? { type: 'AAAA', address: addressText(message.subarray(start, end)) }
        : undefined
    default:
      return undefined
  }
}

/** The offset behind a name, which ends at its first pointer, if any. */
function endOfName(message: Buffer, start: number): number {
  for (let offset = start; ; ) {
    const head = message.readUInt8(offset)
    if (head >= POINTER) return offset + 2
    if (head > MAX_LABEL) throw new RangeError('a label is too long')
    offset += head + 1
    if (head === 0) return offset
  }
}

interface MessageName {
  /** Undefined if there are more than {@link MAX_LABELS}. */
  readonly labels: DnsName | undefined
  /** The size without pointers. */
  readonly bytes: number
}
const ROOT: MessageName = { labels: [], bytes: 0 }

/** The names of a message. Reads each label once, even if many pointers lead to it. */
class MessageNames {
  readonly #message: Buffer
  readonly #names = new Map<number, MessageName>()

  constructor(message: Buffer) {
    this.#message = message
  }

  /** @throws RangeError if no valid name starts at this offset */
  at(start: number): DnsName | undefined {
    const path: { readonly offset: number; readonly label?: string }[] = []
    let [offset, previous] = [start, start]
    let name = this.#names.get(offset)
    while (name === undefined) {
      if (path.length > MAX_NAME) throw new RangeError('a name is too long')
      const head = this.#message.readUInt8(offset)
      if (head >= POINTER) {
        path.push({ offset })
        offset = this.#message.readUInt16BE(offset) & 0x3fff
        // Pointers go backwards only, so this loop ends.
        if (offset >= previous) throw new RangeError('a name points forwards')
        previous = offset
      } else {
        const next = offset + 1 + head
        if (head > MAX_LABEL || next > this.#message.length)
          throw new RangeError('a label is too long')
        if (head > 0) path.push({ offset, label: readLabel(this.#message, offset + 1, next) })
        offset = next
        if (head === 0) name = ROOT
      }
      name ??= this.#names.get(offset)
    }
    for (const { offset: at, label } of path.reverse()) {
      if (label !== undefined) name = withLabel(label, this.#message.readUInt8(at), name)
      this.#names.set(at, name)
    }
    return name.labels
  }
}

function withLabel(label: string, length: number, { labels, bytes }: MessageName): MessageName {
  if (bytes + length + 1 > MAX_NAME) throw new RangeError('a name is too long')
  const isShort = labels !== undefined && labels.length < MAX_LABELS
  return { labels: isShort ? [label, ...labels] : undefined, bytes: bytes + length + 1 }
}

/** RFC 6763, section 4.1.1: UTF-8. A query could not repeat any other label. */
function readLabel(message: Buffer, start: number, end: number): string {
  const label = message.toString('utf8', start, end)
  if (label.includes('\u{fffd}')) throw new RangeError('a name is not UTF-8')
  return label
}

function readStrings(message: Buffer, start: number, end: number): string[] {
  const strings: string[] = []
  for (let offset = start; offset < end; ) {
    const next = offset + 1 + message.readUInt8(offset)
    if (next > end) throw new RangeError('a string ends behind its record')
    if (strings.length < MAX_STRINGS) strings.push(message.toString('utf8', offset + 1, next))
    offset = next
  }
  return strings
}

/** The canonical form of RFC 5952: each address has exactly one text. */
function addressText(bytes: Buffer): string {
  const groups = [0, 2, 4, 6, 8, 10, 12, 14].map((offset) =>
    bytes.readUInt16BE(offset).toString(16),
  )
  return new URL(`http://[${groups.join(':')}]`).hostname.slice(1, -1)
}
