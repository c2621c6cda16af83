import {
  type ErrorFields,
  errorFields,
  errorText,
  handlerPlaces,
  isBug,
  LOG_LEVELS,
  type Logger,
  type LogLevel,
  type LogMethod,
  maskUrls,
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
    (fields, message) => {
      const hasBug = isBug(fields)
      const name = hasBug ? 'error' : requested
      if (LEVELS.indexOf(level) > LEVELS.indexOf(name)) return
      const shown = Object.entries({ ...bound, ...fields })
        .map(([key, value]) => [key, text(value)] as const)
        .filter(([, value]) => value !== '')
        .map(([key, value]) => `${key}=${value}`)
      write(
        printable(
          maskUrls(
            [new Date().toTimeString().slice(0, 8), name.padEnd(5), message, ...shown].join(' '),
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

/** Empty for an empty value. */
function text(value: unknown): string {
  if (Array.isArray(value)) return value.map(text).filter(Boolean).join(',')
  if (value instanceof Error) return text(errorText(value))
  const plain = typeof value === 'string' ? value : (JSON.stringify(value) ?? '')
  return /^[\w./:@=-]*$/.test(plain) ? plain : JSON.stringify(plain)
}

/** The stacks of an error and of its causes. */
function stackOf({ stack = '', cause }: ErrorFields): string[] {
  return [...stack.split('\n').filter(Boolean), ...(cause === undefined ? [] : stackOf(cause))]
}
