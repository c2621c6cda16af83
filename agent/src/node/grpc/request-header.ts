import type { Field } from './header-table.js'

const REQUIRED = [':method', ':scheme', ':path'] as const
const PSEUDO: ReadonlySet<string> = new Set([...REQUIRED, ':authority'])
/** Fields of a connection of HTTP/1 (RFC 9113, 8.2.2). */
const CONNECTION_FIELDS: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'transfer-encoding',
  'upgrade',
])
const FIELD_NAME = /^[a-z0-9!#$%&'*+.^_`|~-]+$/

/**
 * The fields of a request, the last of each name. The value of `:authority` is not read: kubelets
 * before 1.26 send the path of the socket, which is none. @returns undefined if the request is
 * malformed (RFC 9113, 8.2 and 8.3)
 */
export function requestHeader(fields: readonly Field[]): ReadonlyMap<string, string> | undefined {
  const header = new Map<string, string>()
  let isPseudoOver = false
  for (const [name, value] of fields) {
    if (/[\0\r\n]/.test(value)) return undefined
    if (isPseudo(name)) {
      if (isPseudoOver || !PSEUDO.has(name) || header.has(name)) return undefined
    } else {
      isPseudoOver = true
      if (!FIELD_NAME.test(name) || CONNECTION_FIELDS.has(name)) return undefined
      if (name === 'te' && value !== 'trailers') return undefined
    }
    header.set(name, value)
  }
  return REQUIRED.every((name) => header.get(name)) ? header : undefined
}

export function isPseudo(name: string): boolean {
  return name.startsWith(':')
}
