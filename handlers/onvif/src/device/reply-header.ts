/** Longer headers are not changed: the reply could consist of headers. */
const MAX_BYTES = 4 * 1024
/** The limit of provisional replies in one piece. */
const MAX_PROVISIONAL = 8

/**
 * Makes the header of an HTTP reply acceptable to the parser of Node.js. It refuses lines that are
 * no headers, and a Content-Length that is written twice: equal values have one meaning (RFC 9112,
 * section 6.3). Some cameras write both. All other bytes stay as they are.
 */
export class ReplyHeader {
  #pending: Buffer | undefined = Buffer.alloc(0)
  #bytes = 0

  /** Takes the next bytes of the connection. @returns the bytes for the parser */
  push(chunk: Buffer): Buffer {
    if (this.#pending === undefined) return chunk
    this.#bytes += chunk.length
    let rest = Buffer.concat([this.#pending, chunk])
    const done: Buffer[] = []
    for (let end = endOfHeader(rest); end >= 0; end = endOfHeader(rest)) {
      const header = rest.toString('latin1', 0, end)
      done.push(Buffer.from(withOneLength(withHeadersOnly(header)), 'latin1'))
      rest = rest.subarray(end)
      // A provisional reply is followed by another header.
      if (!/^\s*HTTP\/[\d.]+ 1\d\d/.test(header) || done.length >= MAX_PROVISIONAL)
        return this.#end([...done, rest])
    }
    if (this.#bytes > MAX_BYTES) return this.#end([...done, rest])
    this.#pending = rest
    return Buffer.concat(done)
  }

  /** @returns the bytes that were kept back */
  end(): Buffer {
    return this.#end([this.#pending ?? Buffer.alloc(0)])
  }

  #end(bytes: readonly Buffer[]): Buffer {
    this.#pending = undefined
    return Buffer.concat(bytes)
  }
}

/** The length of the header with the empty line; -1 if the header is not complete. */
function endOfHeader(bytes: Buffer): number {
  const ends = ['\n\r\n', '\n\n'].flatMap((text) => {
    const at = bytes.indexOf(text, bytes[0] === CR || bytes[0] === LF ? 2 : 0, 'latin1')
    return at < 0 ? [] : [at + text.length]
  })
  return ends.length === 0 ? -1 : Math.min(...ends)
}

const CR = 0x0d
const LF = 0x0a

/** The names of headers (RFC 9110, section 5.1), white space, and a value that may be empty. */
const HEADER = /^([!#$%&'*+.^_`|~\w-]+)[ \t]*(:.*)$/s

/** The header without lines that are no headers, and without white space before a colon. */
function withHeadersOnly(header: string): string {
  let hasStatus = false
  let isKept = false
  const lines = (header.match(/[^\n]*\n/g) ?? []).map((line) => {
    const text = line.replace(/\r?\n$/, '')
    const end = line.slice(text.length)
    if (text === '') return line
    if (!hasStatus) {
      hasStatus = true
      return line
    }
    // A line that begins with white space belongs to the line before.
    if (/^[ \t]/.test(text)) return isKept ? `${text.replaceAll('\r', ' ')}${end}` : ''
    const [, name = '', value = ''] = HEADER.exec(text) ?? []
    isKept = name !== '' && !EMPTY_LENGTH.test(text)
    return isKept ? `${name}${value.replaceAll('\r', ' ')}${end}` : ''
  })
  return lines.join('')
}

const EMPTY_LENGTH = /^content-length[ \t]*:[ \t]*$/i

function withOneLength(header: string): string {
  const lengths = [...header.matchAll(/^content-length[ \t]*:([^\r\n]*)$/gim)]
  const values = lengths.flatMap(([, value = '']) => value.split(',').map((part) => part.trim()))
  const [value = ''] = values
  if (values.length < 2 || !/^\d+$/.test(value) || values.some((other) => other !== value))
    return header
  let isFirst = true
  return header.replace(/^content-length[ \t]*:[^\r\n]*\r?\n/gim, (line) => {
    const kept = isFirst ? line.replace(/:[^\r\n]*/, `: ${value}`) : ''
    isFirst = false
    return kept
  })
}
