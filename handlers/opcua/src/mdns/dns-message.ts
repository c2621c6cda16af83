// The part of DNS messages that finding services by multicast needs (RFC 1035, RFC 6762). Without any I/O.

/** Labels of a domain name, without the root. A label may hold any character, dots too: `['Line 1.2', '_opcua-tcp', …]`. */
export type DnsName = readonly string[]

interface RecordBase {
  readonly name: DnsName
  /** In seconds; 0 says that the record is no longer true. */
  readonly ttl: number
  /** Records of this name and type that were heard of before are out of date. */
  readonly flush: boolean
}
export type PtrRecord = RecordBase & { readonly type: 'PTR'; readonly target: DnsName }
export type SrvRecord = RecordBase & {
  readonly type: 'SRV'
  readonly port: number
  readonly target: DnsName
}
export type TxtRecord = RecordBase & { readonly type: 'TXT'; readonly strings: readonly string[] }
export type AddressRecord = RecordBase & { readonly type: 'A' | 'AAAA'; readonly address: string }
export type DnsRecord = PtrRecord | SrvRecord | TxtRecord | AddressRecord

export interface Question {
  readonly name: DnsName
  readonly type: DnsRecord['type']
}

/** RFC 6762, section 17: no message is longer, in bytes. */
export const MAX_MESSAGE = 9000
/** What fits into one datagram on any network that carries multicast, in bytes. */
const MAX_QUERY = 1200

const TYPES = { A: 1, PTR: 12, TXT: 16, AAAA: 28, SRV: 33 } as const
const KNOWN_TYPES: ReadonlySet<number> = new Set(Object.values(TYPES))
const CLASS_IN = 1
/** Of the class of a record: it takes the place of others. Of the class of a question: a unicast answer would do. */
const TOP_BIT = 0x8000
const HEADER = 12
/** RFC 1035, section 2.3.4, in bytes. */
const MAX_NAME = 255
const MAX_LABEL = 63
const POINTER = 0xc0
/** A service has four labels, and a host two or three. Names of more are legal, and nothing to us. */
const MAX_LABELS = 8
/** Of one message; more are left out. RFC 6762, section 17: only a single record may need more than an Ethernet frame. */
const MAX_RECORDS = 128
/** Of a TXT record; more are left out. What is read of them, `path` and `caps`, comes early. */
const MAX_STRINGS = 64

/** One text for all spellings of a name: case does not count (RFC 6762, section 16). */
export function nameKey(name: DnsName): string {
  return name.map((label) => (/[\\.A-Z]/.test(label) ? labelKey(label) : label)).join('.')
}

function labelKey(label: string): string {
  return withoutCase(label).replace(/[\\.]/g, (character) => `\\${character}`)
}

/** Whether both are spellings of one name. */
export function isSameName(a: DnsName, b: DnsName): boolean {
  return a.length === b.length && a.every((label, index) => isSameLabel(label, b[index] ?? ''))
}

function isSameLabel(a: string, b: string): boolean {
  return a === b || (a.length === b.length && withoutCase(a) === withoutCase(b))
}

function withoutCase(label: string): string {
  return label.replace(/[A-Z]/g, (letter) => letter.toLowerCase())
}

/** Whether a message has the header of a response that counts, and not that of a query or an error. */
export function isResponse(message: Buffer): boolean {
  if (message.length < HEADER || message.length > MAX_MESSAGE) return false
  const flags = message.readUInt16BE(2)
  const [isAnswer, opcode, responseCode] = [
    (flags & 0x8000) !== 0,
    (flags >> 11) & 0xf,
    flags & 0xf,
  ]
  return isAnswer && opcode === 0 && responseCode === 0
}

/**
 * The records of a response that are of known types; others are passed over, and so are those with names of more than
 * {@link MAX_LABELS}. Undefined where it is none: a query, broken, or what RFC 6762, section 18, tells to ignore.
 * @param type the only owner of PTR records that counts @default any
 */
export function decodeResponse(message: Buffer, type?: DnsName): DnsRecord[] | undefined {
  if (!isResponse(message)) return undefined
  try {
    return readRecords(message, type)
  } catch (error) {
    if (error instanceof RangeError) return undefined
    throw error
  }
}

/** @throws RangeError where the message ends too early, or a name is none. */
function readRecords(message: Buffer, type: DnsName | undefined): DnsRecord[] {
  const names = new MessageNames(message)
  const [questions, ...counts] = [4, 6, 8, 10].map((offset) => message.readUInt16BE(offset))
  let offset = HEADER
  for (let left = questions ?? 0; left > 0; left--) offset = endOfName(message, offset) + 4
  const records: DnsRecord[] = []
  // The message bounds it: a count of more records than there are ends in a RangeError.
  for (
    let left = counts.reduce((sum, count) => sum + count, 0);
    left > 0 && records.length < MAX_RECORDS;
    left--
  ) {
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
    if (recordType === TYPES.PTR && type !== undefined && !isSameName(name, type)) continue
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

/** Where a name ends that stands in a message: behind its first pointer, if it has one. */
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
  /** Undefined where there are more than {@link MAX_LABELS}. */
  readonly labels: DnsName | undefined
  /** As it would be without pointers. */
  readonly bytes: number
}
const ROOT: MessageName = { labels: [], bytes: 0 }

/** The names of a message. Each label is read once, however many pointers lead to it. */
class MessageNames {
  readonly #message: Buffer
  readonly #known = new Map<number, MessageName>()

  constructor(message: Buffer) {
    this.#message = message
  }

  /** @throws RangeError where no name begins at this offset */
  at(start: number): DnsName | undefined {
    const way: { readonly offset: number; readonly label?: string }[] = []
    let [offset, before] = [start, start]
    let name = this.#known.get(offset)
    while (name === undefined) {
      if (way.length > MAX_NAME) throw new RangeError('a name is too long')
      const head = this.#message.readUInt8(offset)
      if (head >= POINTER) {
        way.push({ offset })
        offset = this.#message.readUInt16BE(offset) & 0x3fff
        // Backwards only: so it comes to an end.
        if (offset >= before) throw new RangeError('a name points forwards')
        before = offset
      } else {
        const next = offset + 1 + head
        if (head > MAX_LABEL || next > this.#message.length)
          throw new RangeError('a label is too long')
        if (head > 0) way.push({ offset, label: readLabel(this.#message, offset + 1, next) })
        offset = next
        if (head === 0) name = ROOT
      }
      name ??= this.#known.get(offset)
    }
    for (const { offset: at, label } of way.reverse()) {
      if (label !== undefined) name = withLabel(label, this.#message.readUInt8(at), name)
      this.#known.set(at, name)
    }
    return name.labels
  }
}

function withLabel(label: string, length: number, { labels, bytes }: MessageName): MessageName {
  if (bytes + length + 1 > MAX_NAME) throw new RangeError('a name is too long')
  const isOurs = labels !== undefined && labels.length < MAX_LABELS
  return { labels: isOurs ? [label, ...labels] : undefined, bytes: bytes + length + 1 }
}

/** RFC 6763, section 4.1.1: UTF-8. What is not could not be asked for again. */
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

/** Shortened as RFC 5952 wants it, so that one address has one text. */
function addressText(bytes: Buffer): string {
  const groups = [0, 2, 4, 6, 8, 10, 12, 14].map((offset) =>
    bytes.readUInt16BE(offset).toString(16),
  )
  return new URL(`http://[${groups.join(':')}]`).hostname.slice(1, -1)
}

/**
 * Queries, and the answers to it that are known already. Of these as many as fit are named: what is left out is answered
 * once more, which does no harm. Several messages where there are many questions; none where there is none.
 */
export function encodeQuery(
  questions: readonly Question[],
  known: readonly PtrRecord[] = [],
): Buffer[] {
  const messages: Buffer[] = []
  let writer = new MessageWriter()
  for (const question of questions) {
    if (writer.length > MAX_QUERY) {
      messages.push(writer.finish())
      writer = new MessageWriter()
    }
    writer.question(question)
  }
  for (const record of known) {
    // Known answers belong to the questions of the same message.
    if (writer.length > MAX_QUERY || messages.length > 0) break
    writer.answer(record)
  }
  return writer.isEmpty ? messages : [...messages, writer.finish()]
}

class MessageWriter {
  readonly #parts: Buffer[] = [Buffer.alloc(HEADER)]
  /** Where names, and what they end with, stand already. */
  readonly #names = new Map<string, number>()
  #questions = 0
  #answers = 0
  length = HEADER

  get isEmpty(): boolean {
    return this.#questions === 0
  }

  question({ name, type }: Question): void {
    this.#name(name)
    this.#numbers(TYPES[type], CLASS_IN)
    this.#questions++
  }

  answer({ name, ttl, target }: PtrRecord): void {
    this.#name(name)
    this.#numbers(TYPES.PTR, CLASS_IN, ttl >>> 16, ttl & 0xffff, 0)
    const lengthAt = this.#parts.length - 1
    const from = this.length
    this.#name(target)
    this.#parts[lengthAt]?.writeUInt16BE(this.length - from, 8)
    this.#answers++
  }

  finish(): Buffer {
    const message = Buffer.concat(this.#parts)
    message.writeUInt16BE(this.#questions, 4)
    message.writeUInt16BE(this.#answers, 6)
    return message
  }

  #name(name: DnsName): void {
    for (let index = 0; index < name.length; index++) {
      const rest = nameKey(name.slice(index))
      const at = this.#names.get(rest)
      if (at !== undefined) {
        this.#numbers((POINTER << 8) | at)
        return
      }
      this.#names.set(rest, this.length)
      const label = Buffer.from(name[index] ?? '', 'utf8')
      this.#add(Buffer.concat([Buffer.from([label.length]), label]))
    }
    this.#add(Buffer.alloc(1))
  }

  #numbers(...numbers: number[]): void {
    const part = Buffer.alloc(numbers.length * 2)
    numbers.forEach((number, index) => {
      part.writeUInt16BE(number, index * 2)
    })
    this.#add(part)
  }

  #add(part: Buffer): void {
    this.#parts.push(part)
    this.length += part.length
  }
}
