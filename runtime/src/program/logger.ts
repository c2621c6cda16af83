import { kindOf } from '../errors/errors.js'

/** From the least important lines to the most important ones. */
export const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const

export type LogLevel = (typeof LOG_LEVELS)[number]

/**
 * A line of a log: a constant message and fields, in the form of pino. The field `err` holds an
 * error as it was thrown.
 */
export type LogMethod = (fields: Readonly<Record<string, unknown>>, message: string) => void

/**
 * The log of a handler. Any pino logger is a Logger. Never log a discovery property: it may be a
 * secret.
 */
export interface Logger {
  /** A line for the search of a mistake. Most programs do not write it. */
  readonly debug: LogMethod
  /** A change of state. */
  readonly info: LogMethod
  /** A problem that a person should know. */
  readonly warn: LogMethod
  /** A failure. */
  readonly error: LogMethod
  /** The same logger, with fields for every line. */
  child(fields: Readonly<Record<string, unknown>>): Logger
}

/** A logger that writes nothing. */
export const silentLogger: Logger = {
  debug() {},
  info() {},
  warn() {},
  error() {},
  child: () => silentLogger,
}

/** Whether the error of a log line is a bug. Its level is always `error`. */
export function isBug({ err }: Readonly<Record<string, unknown>>): boolean {
  return err !== undefined && kindOf(err) === 'bug'
}
