/** From the least important lines to the most important ones. */
export const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const

/** One line of a log: constant message, varying fields. The shape is pino's. */
export type LogMethod = (fields: Readonly<Record<string, unknown>>, message: string) => void

/** What a handler logs to. Any pino logger is one. Never log a discovery property: it may be a secret. */
export interface Logger {
  readonly debug: LogMethod
  readonly info: LogMethod
  readonly warn: LogMethod
  readonly error: LogMethod
  /** The same logger with fields that go with every line. */
  child(fields: Readonly<Record<string, unknown>>): Logger
}

/** Says nothing. */
export const silentLogger: Logger = {
  debug() {},
  info() {},
  warn() {},
  error() {},
  child: () => silentLogger,
}
