import { kindOf } from './errors.js'

/** From the least important lines to the most important ones. */
export const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const

export type LogLevel = (typeof LOG_LEVELS)[number]

/** One line of a log: constant message, varying fields. An error stands under `err`, as it was thrown. The shape is pino's. */
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

/** Writes nothing. */
export const silentLogger: Logger = {
  debug() {},
  info() {},
  warn() {},
  error() {},
  child: () => silentLogger,
}

/** The level of a line: `error` for a bug, whatever the caller asked for. */
export function levelOf(level: LogLevel, fields: Readonly<Record<string, unknown>>): LogLevel {
  return isBug(fields) ? 'error' : level
}

/** Whether the error of a log line is a bug. */
export function isBug({ err }: Readonly<Record<string, unknown>>): boolean {
  return err !== undefined && kindOf(err) === 'bug'
}
