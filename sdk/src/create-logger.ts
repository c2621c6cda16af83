import { destination, pino } from 'pino'
import { AkriError } from './errors.js'
import { LOG_LEVELS, type Logger } from './logger.js'

/** JSON lines to standard error. @default level of `LOG_LEVEL`, else `info` */
export function createLogger(name: string, level: string = process.env.LOG_LEVEL ?? 'info'): Logger {
  if (!LOG_LEVELS.some((known) => known === level)) {
    throw new AkriError(
      'AKRI_ERR_INVALID_OPTION',
      'terminal',
      `log level ${JSON.stringify(level)} is not one of ${LOG_LEVELS.join(', ')}`,
    )
  }
  return pino({ name, level, formatters: { level: (label) => ({ level: label }) } }, destination({ fd: 2, sync: true }))
}
