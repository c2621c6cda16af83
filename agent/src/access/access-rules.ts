import { isHandlerName } from '../handlers/handler-endpoint.js'
import { Pattern } from './pattern.js'

/** Lets a handler give a path of the node to containers. */
export interface PathRule {
  readonly handler: string
  readonly host: Pattern
  /** The path in the container. @default the path of the node */
  readonly container: Pattern | undefined
  /** `ro` or `rw` of a mount; of `r`, `w` and `m` of a device node. */
  readonly mode: string
  readonly text: string
}

/** Lets a handler report a property. */
export interface NameRule {
  readonly handler: string
  readonly name: Pattern
  readonly text: string
}

/** The longest path of Linux, in characters. */
const MAX_PATH = 4096

/**
 * Whether a path is absolute and has one spelling only. A text comparison decides about such a path
 * as the kernel does, apart from symbolic links.
 */
export function isCanonicalPath(path: string): boolean {
  return (
    path.length <= MAX_PATH &&
    !/\p{Cc}/u.test(path) &&
    path.startsWith('/') &&
    (path === '/' || path.split('/').every(isPart))
  )
}

function isPart(part: string, index: number): boolean {
  return index === 0 || (part !== '' && part !== '.' && part !== '..')
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
  const paths = container === undefined ? [host] : [host, container]
  if (!isHandlerName(handler) || others.length > 0 || !modes.test(mode)) return undefined
  if (!paths.every(isCanonicalPath)) return undefined
  const inContainer = container === undefined ? undefined : new Pattern(container)
  return { handler, host: new Pattern(host), container: inContainer, mode, text }
}

/** Reads `<handler>=<name>`. @returns undefined for any other text */
export function readNameRule(text: string): NameRule | undefined {
  const { handler, rest: name } = splitRule(text)
  if (!isHandlerName(handler) || name === '' || /[=\p{Cc}\s]/u.test(name)) return undefined
  // A name has no components.
  return { handler, name: new Pattern(name.replaceAll(/\*+/g, '**')), text }
}

function splitRule(text: string): { readonly handler: string; readonly rest: string } {
  const [handler = '', ...rest] = text.split('=')
  return { handler, rest: rest.join('=') }
}
