// The part of DNS messages that multicast service discovery needs (RFC 1035, RFC 6762). Pure.

/**
 * Labels of a domain name, without the root. A label may contain any character, including dots:
 * `['Line 1.2', '_opcua-tcp', …]`.
 */
export type DnsName = readonly string[]

export interface RecordBase {
  readonly name: DnsName
  /** In seconds; 0 withdraws the record. */
  readonly ttl: number
  /** Whether older records with this name and type are out of date. */
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

/** The numbers of the record types. */
export const TYPES = { A: 1, PTR: 12, TXT: 16, AAAA: 28, SRV: 33 } as const
export const CLASS_IN = 1
/** The size of a message header, in bytes. */
export const HEADER = 12
/** The upper bits of a length byte that mark a pointer to an earlier name. */
export const POINTER = 0xc0

/** The labels with dots between them; a dot or backslash inside of a label has a backslash. */
export function nameText(name: DnsName): string {
  return name.map((label) => label.replace(/[\\.]/g, '\\$&')).join('.')
}

/** The same text for all spellings of a name: names ignore case (RFC 6762, section 16). */
export function nameKey(name: DnsName): string {
  return withoutCase(nameText(name))
}

/** Whether two names are equal without regard to case. */
export function isSameName(a: DnsName, b: DnsName): boolean {
  return a.length === b.length && a.every((label, index) => isSameLabel(label, b[index] ?? ''))
}

function isSameLabel(a: string, b: string): boolean {
  return a === b || (a.length === b.length && withoutCase(a) === withoutCase(b))
}

/** Only letters of ASCII have two cases. */
export function withoutCase(text: string): string {
  return text.replace(/[A-Z]/g, (letter) => letter.toLowerCase())
}
