import { destination, pino } from 'pino'
import { errorFields, InvalidOptionError, readableError } from '../errors/errors.js'
import { isBug, LOG_LEVELS, type Logger, type LogLevel, type LogMethod } from './logger.js'

export interface LoggerOptions {
  /** @default `LOG_LEVEL`, else `info` */
  readonly level?: string | undefined
  /** Calls back for each line whose `err` is a bug. @default nothing */
  readonly onBug?: () => void
}

/** The most bytes of lines that wait for room on a full disk. Later lines are left out. */
const MAX_UNWRITTEN_BYTES = 1024 * 1024

/**
 * JSON lines to standard error. An error under `err` becomes its code, message and chain of causes;
 * at level debug, or for a bug, its stack as well. A bug is logged at level error.
 * @throws InvalidOptionError if there is no such level
 */
export function createLogger(
  name: string,
  { level = process.env.LOG_LEVEL ?? 'info', onBug = () => {} }: LoggerOptions = {},
): Logger {
  if (!LOG_LEVELS.some((known) => known === level))
    throw new InvalidOptionError(
      `log level ${JSON.stringify(level)} is not one of ${LOG_LEVELS.join(', ')}`,
    )
  const output = destination({ fd: 2, sync: true, maxLength: MAX_UNWRITTEN_BYTES })
  // Standard error can be a file on a full disk. Devices are more important than the log.
  output.on('error', () => undefined)
  const lines = pino(
    {
      name,
      level,
      formatters: { level: (label) => ({ level: label }) },
      serializers: {
        err: (error: unknown) => errorFields(readableError(error), level === 'debug' || undefined),
      },
    },
    output,
  )
  return withBugs(lines, onBug)
}

/** Logs a bug at level error, whatever level its line has. */
function withBugs(lines: Logger, onBug: () => void): Logger {
  const method =
    (level: LogLevel): LogMethod =>
    (fields, message) => {
      const hasBug = isBug(fields)
      if (hasBug) onBug()
      lines[hasBug ? 'error' : level](fields, message)
    }
  return {
    debug: method('debug'),
    info: method('info'),
    warn: method('warn'),
    error: method('error'),
    child: (fields) => withBugs(lines.child(fields), onBug),
  }
}
