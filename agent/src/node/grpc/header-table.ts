/** A field of a header. */
export type Field = readonly [name: string, value: string]

/** The fields that each connection knows (RFC 7541, appendix A). The first has the index 1. */
const STATIC_FIELDS: readonly Field[] = [
  [':authority', ''],
  [':method', 'GET'],
  [':method', 'POST'],
  [':path', '/'],
  [':path', '/index.html'],
  [':scheme', 'http'],
  [':scheme', 'https'],
  [':status', '200'],
  [':status', '204'],
  [':status', '206'],
  [':status', '304'],
  [':status', '400'],
  [':status', '404'],
  [':status', '500'],
  ['accept-charset', ''],
  ['accept-encoding', 'gzip, deflate'],
  ['accept-language', ''],
  ['accept-ranges', ''],
  ['accept', ''],
  ['access-control-allow-origin', ''],
  ['age', ''],
  ['allow', ''],
  ['authorization', ''],
  ['cache-control', ''],
  ['content-disposition', ''],
  ['content-encoding', ''],
  ['content-language', ''],
  ['content-length', ''],
  ['content-location', ''],
  ['content-range', ''],
  ['content-type', ''],
  ['cookie', ''],
  ['date', ''],
  ['etag', ''],
  ['expect', ''],
  ['expires', ''],
  ['from', ''],
  ['host', ''],
  ['if-match', ''],
  ['if-modified-since', ''],
  ['if-none-match', ''],
  ['if-range', ''],
  ['if-unmodified-since', ''],
  ['last-modified', ''],
  ['link', ''],
  ['location', ''],
  ['max-forwards', ''],
  ['proxy-authenticate', ''],
  ['proxy-authorization', ''],
  ['range', ''],
  ['referer', ''],
  ['refresh', ''],
  ['retry-after', ''],
  ['server', ''],
  ['set-cookie', ''],
  ['strict-transport-security', ''],
  ['transfer-encoding', ''],
  ['user-agent', ''],
  ['vary', ''],
  ['via', ''],
  ['www-authenticate', ''],
]

/** What an entry takes besides its texts (RFC 7541, section 4.1). */
const ENTRY_BYTES = 32

/** The fields that a connection has remembered (RFC 7541, section 2.3.2). */
export class HeaderTable {
  /** The newest first. */
  readonly #fields: Field[] = []
  #bytes = 0
  #maxBytes: number

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** @returns undefined if there is no such field */
  at(index: number): Field | undefined {
    return STATIC_FIELDS[index - 1] ?? this.#fields[index - 1 - STATIC_FIELDS.length]
  }

  add(field: Field): void {
    this.#fields.unshift(field)
    this.#bytes += bytesOf(field)
    this.#shrink()
  }

  resize(maxBytes: number): void {
    this.#maxBytes = maxBytes
    this.#shrink()
  }

  #shrink(): void {
    while (this.#bytes > this.#maxBytes) {
      const oldest = this.#fields.pop()
      if (oldest === undefined) return
      this.#bytes -= bytesOf(oldest)
    }
  }
}

/** The texts have a character for each byte. */
export function bytesOf([name, value]: Field): number {
  return name.length + value.length + ENTRY_BYTES
}
