import { format, inspect } from 'node:util'
import {
  type ErrorFields,
  errorFields,
  errorText,
  handlerPlaces,
  isBug,
  isRecord,
  LOG_LEVELS,
  type Logger,
  type LogLevel,
  type LogMethod,
  maskUrls,
  messageOf,
  printable,
} from '@akrijs/runtime'

const LEVELS: readonly string[] = LOG_LEVELS

/**
 * A logger for people: each line has time, level, message and fields. The stack of a bug follows,
 * or the places in the code of a handler.
 */
export function peopleLogger(
  write: (line: string) => void,
  level: string,
  bound: Readonly<Record<string, unknown>> = {},
): Logger {
  const method =
    (requested: LogLevel): LogMethod =>
    (...args: readonly unknown[]) => {
      const { fields, message } = entryOf(args)
      const hasBug = isBug(fields)
      const name = hasBug ? 'error' : requested
      if (LEVELS.indexOf(level) > LEVELS.indexOf(name)) return
      const shown = Object.entries({ ...bound, ...fields })
        .map(([key, value]) => [key, anyText(value)] as const)
        .filter(([, value]) => value !== '')
        .map(([key, value]) => `${key}=${value}`)
      write(
        printable(
          maskUrls(
            [new Date().toTimeString().slice(0, 8), name.padEnd(5), message, ...shown]
              .filter(Boolean)
              .join(' '),
          ),
        ),
      )
      const stack = hasBug ? stackOf(errorFields(fields.err)) : handlerPlaces(fields.err)
      for (const line of stack) write(printable(line))
    }
  return {
    debug: method('debug'),
    info: method('info'),
    warn: method('warn'),
    error: method('error'),
    child: (fields) => peopleLogger(write, level, { ...bound, ...fields }),
  }
}

interface Entry {
  readonly fields: Readonly<Record<string, unknown>>
  readonly message: string
}

/** At run time a handler is JavaScript: pino also takes a text or an error, and formats. */
function entryOf([first, ...rest]: readonly unknown[]): Entry {
  // Of a logger around this one that passes on two arguments.
  const more = rest.length === 1 && rest[0] === undefined ? [] : rest
  const formatted = more.length === 0 ? undefined : format(...more)
  if (first instanceof Error)
    return { fields: { err: first }, message: formatted ?? messageOf(first) }
  if (isRecord(first)) return { fields: first, message: formatted ?? '' }
  return { fields: {}, message: format(first, ...more) }
}

/** A handler can log any value, such as a circle, which JSON refuses. */
function anyText(value: unknown): string {
  try {
    return text(value)
  } catch {
    return inspect(value, { breakLength: Number.POSITIVE_INFINITY, customInspect: false })
  }
}

/** Empty for an empty value. */
function text(value: unknown): string {
  if (Array.isArray(value)) return value.map(text).filter(Boolean).join(',')
  if (value instanceof Error) return text(errorText(value))
  const isPlain = typeof value === 'string' || typeof value === 'bigint'
  const plain = isPlain ? String(value) : (JSON.stringify(value) ?? '')
  return /^[\w./:@=-]*$/.test(plain) ? plain : JSON.stringify(plain)
}

/** The stacks of an error and of its causes. */
function stackOf({ stack = '', cause }: ErrorFields): string[] {
  return [...stack.split('\n').filter(Boolean), ...(cause === undefined ? [] : stackOf(cause))]
}
