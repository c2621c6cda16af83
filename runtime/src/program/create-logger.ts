import { destination, type LogFn, pino } from 'pino'
import { errorFields, InvalidOptionError } from '../errors.js'
import { isRecord } from '../json.js'
import { isBug, LOG_LEVELS, type Logger } from '../logger.js'

export interface LoggerOptions {
  /** @default `LOG_LEVEL`, else `info` */
  readonly level?: string | undefined
  /** Calls back for each line whose `err` is a bug. */
  readonly onBug?: () => void
}

/**
 * JSON lines to standard error. An error under `err` becomes its code, message and chain of causes;
 * at level debug, or for a bug, its stack as well. A bug is logged at level error.
 * @throws InvalidOptionError if there is no such level
 */
export function createLogger(
  name: string,
  { level = process.env.LOG_LEVEL ?? 'info', onBug }: LoggerOptions = {},
): Logger {
  if (!LOG_LEVELS.some((known) => known === level))
    throw new InvalidOptionError(
      `log level ${JSON.stringify(level)} is not one of ${LOG_LEVELS.join(', ')}`,
    )
  return pino(
    {
      name,
      level,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: (error: unknown) => errorFields(error, level === 'debug' || undefined) },
      hooks: {
        logMethod(parameters: Parameters<LogFn>, method: LogFn) {
          const fields: unknown = parameters[0]
          const bug = isRecord(fields) && isBug(fields)
          if (bug) onBug?.()
          ;(bug ? this.error : method).apply(this, parameters)
        },
      },
    },
    destination({ fd: 2, sync: true }),
  )
}
