import { types } from 'node:util'
import { isRecord } from '../text/json.js'
import { shorten } from '../text/printable.js'
import { isSecretName, MASK, maskUrls } from '../text/secrets.js'
import { isAuthorsLine, isBuiltInLine, isOwnLine } from './handler-code.js'
import { issuesText } from './schema-issue.js'

/** What the program that meets an error does about it. */
export type ErrorKind =
  /** A retry does not help: show the error to the author of the input. */
  | 'terminal'
  /** A retry may help: try again, with a back-off. */
  | 'transient'
  /** A mistake in akri.js or in a handler: log the stack, and count it. */
  | 'bug'

export type ErrorCode = `AKRI_ERR_${string}`

const MARK = Symbol.for('akri.error')

/**
 * The base of every error of akri.js. `code` is stable and listed in docs/errors.md. Use {@link
 * AkriError.is} rather than `instanceof`: it also recognises errors of another installed copy of
 * this package.
 *
 * @example
 * try {
 *   await serve(handler)
 * } catch (error) {
 *   if (!AkriError.is(error)) throw error
 *   log.error({ code: error.code }, error.message)
 * }
 */
export class AkriError extends Error {
  /** Stable, such as `AKRI_ERR_HOST_NAME`. */
  readonly code: ErrorCode
  /** What the program that meets the error does about it. */
  readonly kind: ErrorKind
  /** @internal */
  readonly [MARK] = true

  constructor(code: ErrorCode, kind: ErrorKind, message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = nameOf(code)
    this.code = code
    this.kind = kind
  }

  /** Whether an error is one of akri.js, from whichever installed copy. */
  static is(error: unknown): error is AkriError {
    return error instanceof Error && MARK in error
  }
}

/** The class of all errors with one code. */
export interface ErrorClass {
  new (message: string, options?: ErrorOptions): AkriError
  /** Whether an error has this code, from whichever installed copy of akri.js. */
  is(error: unknown): error is AkriError
}

/**
 * The base class of one error: `class StateFileError extends defineError('AKRI_ERR_STATE_FILE',
 * 'transient') {}`. The error's `name` comes from the code, because bundlers rename classes.
 *
 * @example
 * class HubBusyError extends defineError('AKRI_ERR_HUB_BUSY', 'transient') {}
 * throw new HubBusyError('the hub has 8 sessions, and takes no more')
 */
export function defineError(code: ErrorCode, kind: ErrorKind): ErrorClass {
  return class extends AkriError {
    constructor(message: string, options?: ErrorOptions) {
      super(code, kind, message, options)
    }

    static override is(error: unknown): error is AkriError {
      return AkriError.is(error) && error.code === code
    }
  }
}

/** An invariant of akri.js does not hold. */
export class InternalError extends defineError('AKRI_ERR_INTERNAL', 'bug') {}

/** An option or argument of a program makes no sense; the message names it. */
export class InvalidOptionError extends defineError('AKRI_ERR_INVALID_OPTION', 'terminal') {}

/** Standard output cannot be written, as on a full disk. A pipe without a reader is no error. */
export class OutputError extends defineError('AKRI_ERR_OUTPUT', 'terminal') {}

/**
 * An interval, as of `every` or `deviceMap`, is not a number of milliseconds from 1 to 24 days, nor
 * a text with a unit. Or the time of `sleep` or `withTimeLimit` is no number.
 */
export class InvalidIntervalError extends defineError('AKRI_ERR_INVALID_INTERVAL', 'terminal') {}

/** `AKRI_ERR_STATE_FILE` gives `StateFileError`. */
function nameOf(code: ErrorCode): string {
  const words = code.slice('AKRI_ERR_'.length).toLowerCase().split('_')
  return `${words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join('')}Error`
}

/**
 * The kind of anything that was thrown. The errors that a JavaScript engine throws for a wrong
 * program are bugs; an error with a cause is not one of them (`TypeError: fetch failed` wraps a
 * network error).
 */
export function kindOf(error: unknown): ErrorKind {
  if (AkriError.is(error)) return error.kind
  if (!(error instanceof Error) || error.cause !== undefined) return 'transient'
  const isEngineError = ENGINE_ERRORS.some((known) => error instanceof known)
  return isEngineError || codeOf(error) === 'ERR_ASSERTION' ? 'bug' : 'transient'
}

/**
 * The message of anything that was thrown, for the status of an object or for a person, without
 * passwords of URLs: Node.js repeats a URL that it refuses. Loggers take the error itself.
 *
 * @example
 * try {
 *   yield await listSensors(details.url, signal)
 * } catch (error) {
 *   remark(`the hub does not answer: ${messageOf(error)}`)
 * }
 */
export function messageOf(error: unknown): string {
  try {
    return maskUrls(error instanceof Error ? errorMessage(error) : valueText(error))
  } catch {
    // A handler can throw anything.
    return NO_TEXT
  }
}

/** The message of zod is the JSON of its issues. */
function errorMessage(error: Error): string {
  const text = /^(\$?ZodError|ValiError)$/.test(error.name) ? issuesText(error) : undefined
  return text ?? String(error.message)
}

const NO_TEXT = 'a value without a text'
/** So many fields of an object that was thrown are shown, and so many characters of its text. */
const MAX_FIELDS = 5
const MAX_VALUE = 200

/** The text of a value that is no error. Libraries throw plain objects, too. */
function valueText(thrown: unknown): string {
  if (thrown === undefined || thrown === null) return `${thrown} was thrown`
  if (typeof thrown !== 'object') return String(thrown)
  if ('message' in thrown && typeof thrown.message === 'string') return thrown.message
  const text = 'toString' in thrown ? String(thrown) : ''
  if (text !== '' && !text.startsWith('[object ')) return text
  const fields = Object.entries(thrown).slice(0, MAX_FIELDS)
  if (fields.length === 0) return NO_TEXT
  const shown = fields.map(
    ([name, value]) => `${name}: ${isSecretName(name) ? MASK : shorten(value)}`,
  )
  return `{ ${shown.join(', ')} }`.slice(0, MAX_VALUE)
}

/** The code of an error of akri.js or of the system, such as `ENOENT`. */
export function codeOf(error: unknown): string | number | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined
  const { code } = error
  return typeof code === 'string' || typeof code === 'number' ? code : undefined
}

/** An error as plain data: all that a log line shows of it. */
export interface ErrorFields {
  readonly name: string | undefined
  readonly code: string | number | undefined
  readonly kind: ErrorKind | undefined
  readonly message: string
  readonly stack: string | undefined
  readonly cause: ErrorFields | undefined
}

/** The longest chain of causes that is read: an error can be its own cause. */
const MAX_CAUSES = 8

/**
 * @param withStack whether stacks are included. @default for a bug; of an error of a handler, the
 * places in the handler
 */
export function errorFields(error: unknown, withStack = kindOf(error) === 'bug'): ErrorFields {
  const thrown = thrownByHandler(error)
  const stackOf = (link: unknown) => {
    if (withStack) return maskUrls(stackText(link)) || undefined
    const places = thrown.includes(link) ? placesOf(link) : []
    return places.length > 0 ? places.join('\n') : undefined
  }
  const fieldsOf = ([link, ...causes]: readonly unknown[]): ErrorFields => ({
    name: link instanceof Error ? link.name : undefined,
    code: codeOf(link),
    kind: AkriError.is(link) ? link.kind : undefined,
    message: textOf(link),
    stack: stackOf(link),
    cause: causes.length > 0 ? fieldsOf(causes) : undefined,
  })
  return fieldsOf(chainOf(error))
}

/** Errors around what the code of a handler threw. */
const HANDLER_CODES: readonly unknown[] = ['AKRI_ERR_HANDLER_FAILED', 'AKRI_ERR_HANDLER_PACKAGE']
/** The most places of an error, and the longest. */
const MAX_PLACES = 5
const MAX_PLACE = 300
/** Places that the author of a handler cannot change: Node.js, akri.js, and this program. */
const OTHERS = /\bnode:|\/node_modules\/@akrijs\//

/**
 * The places in the code of a handler where an error comes from, as lines of a stack, or the line
 * of code that cannot be read; empty if the error is not of a handler.
 */
export function handlerPlaces(error: unknown): readonly string[] {
  // The error that was thrown first is the cause of the others; its stack may be that of Node.js,
  // or of a callback of a library.
  const all = thrownByHandler(error)
    .map(placesOf)
    .filter((places) => places.length > 0)
  return all.findLast((places) => places.some(isAuthorsLine)) ?? all.at(-1) ?? []
}

/**
 * What the code of a handler threw, with its causes. An error of a built-in handler that is no bug
 * comes from the network or a Configuration: its sentence is enough.
 */
function thrownByHandler(error: unknown): readonly unknown[] {
  const chain = chainOf(error)
  const around = chain.findLastIndex(
    (link) => AkriError.is(link) && HANDLER_CODES.includes(link.code),
  )
  const thrown = around < 0 ? [] : chain.slice(around + 1)
  const isExpected = kindOf(thrown[0]) !== 'bug' && thrown.some(isOfBuiltIn)
  return isExpected ? [] : thrown
}

function isOfBuiltIn(link: unknown): boolean {
  return stackText(link).slice(0, MAX_STACK).split('\n').some(isBuiltInLine)
}

/** Whether the stack of an error has places outside of Node.js and akri.js. */
export function hasPlaces(error: unknown): boolean {
  return placesOf(error).length > 0
}

/** The places of the author; those in libraries if there are no others. */
function placesOf(link: unknown): string[] {
  const lines = stackText(link).slice(0, MAX_STACK).split('\n')
  const cut = (line: string) => line.slice(0, MAX_PLACE)
  // Node.js puts the place of a SyntaxError before its stack: file, line of code, and a mark.
  if (/^(file:\/\/)?\/.*:\d+$/.test(lines[0] ?? '')) return lines.slice(0, 3).map(cut)
  const places = lines.filter(
    (line) => /^ {4}at /.test(line) && !OTHERS.test(line) && !isOwnLine(line),
  )
  const authors = places.filter(isAuthorsLine)
  return (authors.length > 0 ? authors : places).slice(0, MAX_PLACES).map(cut)
}

/** A message comes first, and it can be long. */
const MAX_STACK = 64 * 1024

/** A handler can write the stacks of its errors. */
function stackText(error: unknown): string {
  return error instanceof Error && typeof error.stack === 'string' ? error.stack : ''
}

/**
 * What the code of a handler threw, in a form that every reader can read: an error can have a
 * getter that throws, and a Proxy can refuse anything.
 * @returns the same value, or an error in its place
 */
export function readableError(thrown: unknown): unknown {
  try {
    if (chainOf(thrown).every(isReadable)) return thrown
  } catch {
    // The value cannot be read.
  }
  const copy = new Error(messageOf(thrown))
  try {
    copy.stack = stackText(thrown)
  } catch {
    // The place in this function explains nothing.
    copy.stack = `${copy.name}: ${copy.message}`
  }
  return copy
}

/** Throws, if a getter of the error throws. */
function isReadable(link: unknown): boolean {
  if (types.isProxy(link)) return false
  if (!(link instanceof Error)) return true
  const texts = [link.name, link.message, stackText(link), codeOf(link), kindOf(link)]
  return texts.every((text) => typeof text !== 'object')
}

/**
 * The error that {@link errorFields} has described, for an error of another process. Takes any
 * value.
 */
export function errorFromFields(fields: unknown, depth = 1): Error {
  if (!isRecord(fields)) return new Error(String(fields))
  const { name, code, kind, message, stack } = fields
  const cause =
    fields.cause === undefined || depth >= MAX_CAUSES
      ? {}
      : { cause: errorFromFields(fields.cause, depth + 1) }
  const text = typeof message === 'string' ? message : ''
  const Engine = ENGINE_ERRORS.find((known) => known.name === name) ?? Error
  const knownKind = KINDS.find((known) => known === kind)
  const error =
    knownKind !== undefined && isCode(code)
      ? new AkriError(code, knownKind, text, cause)
      : Object.assign(new Engine(text, cause), typeof code === 'string' && { code })
  if (typeof name === 'string') error.name = name
  // The place in this function explains nothing.
  error.stack = typeof stack === 'string' ? stack : `${error.name}: ${text}`
  return error
}

const ENGINE_ERRORS = [TypeError, RangeError, ReferenceError]
const KINDS: readonly ErrorKind[] = ['terminal', 'transient', 'bug']

function isCode(code: unknown): code is ErrorCode {
  return typeof code === 'string' && /^AKRI_ERR_[A-Z_]{1,60}$/.test(code)
}

/**
 * The code and the chain of causes in one line: `fetch failed: connect ECONNREFUSED 10.0.0.5:80`.
 */
export function errorText(error: unknown): string {
  const texts: string[] = []
  // Some messages already end with the message of their cause.
  for (const text of chainOf(error).map(textOf))
    if (!texts.some((before) => before.includes(text))) texts.push(text)
  const code = AkriError.is(error) ? `${error.code} ` : ''
  return `${code}${texts.join(': ')}`
}

/** An error and its causes, as far as they are read. */
export function chainOf(error: unknown): unknown[] {
  const chain = [error]
  for (let link = causeOf(error); link !== undefined; link = causeOf(link)) {
    chain.push(link)
    if (chain.length === MAX_CAUSES) break
  }
  return chain
}

function causeOf(error: unknown): unknown {
  if (!(error instanceof Error)) return undefined
  // Node tries each address of a name, and throws one error without a message for all of them.
  if (error.cause === undefined && error instanceof AggregateError) return error.errors[0]
  return error.cause
}

function textOf(error: unknown): string {
  return (
    messageOf(error) ||
    String(codeOf(error) ?? (error instanceof Error ? error.name : 'an empty message'))
  )
}
