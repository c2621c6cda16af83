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
 */
export class AkriError extends Error {
  readonly code: ErrorCode
  readonly kind: ErrorKind
  readonly [MARK] = true

  constructor(code: ErrorCode, kind: ErrorKind, message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = nameOf(code)
    this.code = code
    this.kind = kind
  }

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
  const isEngineError =
    error instanceof TypeError ||
    error instanceof RangeError ||
    error instanceof ReferenceError ||
    (error instanceof Error && codeOf(error) === 'ERR_ASSERTION')
  return isEngineError && error.cause === undefined ? 'bug' : 'transient'
}

/**
 * The message of anything that was thrown, for the status of an object or for a person. Loggers
 * take the error itself.
 */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
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

/** @param withStack whether stacks are included. @default only for a bug */
export function errorFields(error: unknown, withStack = kindOf(error) === 'bug'): ErrorFields {
  const fieldsOf = ([link, ...causes]: readonly unknown[]): ErrorFields => ({
    name: link instanceof Error ? link.name : undefined,
    code: codeOf(link),
    kind: AkriError.is(link) ? link.kind : undefined,
    message: textOf(link),
    stack: withStack && link instanceof Error ? link.stack : undefined,
    cause: causes.length > 0 ? fieldsOf(causes) : undefined,
  })
  return fieldsOf(chainOf(error))
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

function chainOf(error: unknown): unknown[] {
  const chain: unknown[] = []
  for (let link = error; link !== undefined && chain.length < MAX_CAUSES; link = causeOf(link))
    chain.push(link)
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
