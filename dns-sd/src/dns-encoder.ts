// Encodes queries of multicast DNS. Pure.
import {
  CLASS_IN,
  type DnsName,
  HEADER,
  nameKey,
  POINTER,
  type PtrRecord,
  type Question,
  TYPES,
} from './dns-message.js'

/** The size that fits into one datagram on any network with multicast, in bytes. */
const MAX_QUERY = 1200

/**
 * Encodes questions with known answers (RFC 6762, section 7.1). Omitted known answers do no harm:
 * their senders answer once more. Returns several messages for many questions, and none without
 * questions.
 */
export function encodeQuery(
  questions: readonly Question[],
  knownAnswers: readonly PtrRecord[] = [],
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
  for (const record of knownAnswers) {
    // Known answers apply to the questions of the same message.
    if (writer.length > MAX_QUERY || messages.length > 0) break
    writer.answer(record)
  }
  return writer.isEmpty ? messages : [...messages, writer.finish()]
}

class MessageWriter {
  readonly #parts: Buffer[] = [Buffer.alloc(HEADER)]
  /** The offsets of earlier names and their suffixes. */
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
