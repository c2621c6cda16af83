import { isHandlerName } from '../handlers/handler-endpoint.js'

export interface PathRule {
  readonly host: Pattern
  /** The path in the container. @default the path of the node */
  readonly container: Pattern | undefined
  /** `ro` or `rw` of a mount; of `r`, `w` and `m` of a device node. */
  readonly mode: string
}

/** The longest path of Linux, in characters. */
const MAX_PATH = 4096

/**
 * Whether a path is absolute and has one spelling only. A text comparison decides about such a path
 * as the kernel does, apart from symbolic links.
 */
export function isCanonicalPath(path: string): boolean {
  const parts = path.split('/').slice(1)
  return (
    path.length <= MAX_PATH &&
    !/\p{Cc}/u.test(path) &&
    path.startsWith('/') &&
    (path === '/' || !parts.some((part) => ['', '.', '..'].includes(part)))
  )
}

/**
 * Reads `<handler>=<path>[:<path in the container>][:ro|rw]`; without a mode, read-only.
 * @returns undefined for any other text
 */
export function readMountRule(text: string): PathRule | undefined {
  return readPathRule(text, /^r[ow]$/, 'ro')
}

/**
 * Reads `<handler>=<path>[:<path in the container>][:<permissions>]`; without permissions, `rwm`.
 * @returns undefined for any other text
 */
export function readDeviceRule(text: string): PathRule | undefined {
  return readPathRule(text, /^(?!.*(.).*\1)[rwm]{1,3}$/, 'rwm')
}

function readPathRule(text: string, modes: RegExp, standard: string): PathRule | undefined {
  const { handler, rest } = splitRule(text)
  const [host = '', ...parts] = rest.split(':')
  const container = parts[0]?.startsWith('/') ? parts.shift() : undefined
  const [mode = standard, ...others] = parts
  if (!isHandlerName(handler) || others.length > 0 || !modes.test(mode)) return undefined
  if (![host, container ?? host].every(isCanonicalPath)) return undefined
  const inContainer = container === undefined ? undefined : new Pattern(container)
  return { host: new Pattern(host), container: inContainer, mode }
}

/** Reads `<handler>=<name>`. @returns undefined for any other text */
export function readNameRule(text: string): Pattern | undefined {
  const { handler, rest: name } = splitRule(text)
  if (!isHandlerName(handler) || name === '' || /[=\p{Cc}\s]/u.test(name)) return undefined
  // A name has no components.
  return new Pattern(name.replaceAll(/\*+/g, '**'))
}

function splitRule(text: string): { readonly handler: string; readonly rest: string } {
  const [handler = '', ...rest] = text.split('=')
  return { handler, rest: rest.join('=') }
}

/**
 * A path or name with wildcards: `?` and `*` stay within a component of a path, `**` does not. The
 * time of a match grows with the length of pattern and text only: handlers choose the texts.
 */
export class Pattern {
  /** Whether the pattern has no wildcard. */
  readonly isExact: boolean
  /** Characters and wildcards. */
  readonly #tokens: readonly string[]

  constructor(text: string) {
    this.isExact = !/[*?]/.test(text)
    this.#tokens = text.match(/\*\*|./gsu) ?? []
  }

  matches(text: string): boolean {
    const characters = [...text]
    // How many characters the tokens so far can match.
    let counts = new Set([0])
    for (const token of this.#tokens) {
      const next = new Set<number>()
      if (token === '*' || token === '**')
        for (let count = 0, isOpen = false; count <= characters.length; count++) {
          isOpen ||= counts.has(count)
          if (isOpen) next.add(count)
          if (token === '*' && characters[count] === '/') isOpen = false
        }
      else
        for (const count of counts) {
          const character = characters[count]
          const isWild = token === '?' && character !== undefined && character !== '/'
          if (isWild || character === token) next.add(count + 1)
        }
      counts = next
    }
    return counts.has(characters.length)
  }
}
