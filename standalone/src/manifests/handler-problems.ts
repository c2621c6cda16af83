import type { ObjectCache } from '@akrijs/agent'
import type { Configuration, Problem } from '@akrijs/api'
import type { ObjectKey } from '@akrijs/kube'
import { type Logger, nearest } from '@akrijs/runtime'
import type { ConfigurationSource } from './manifest-files.js'

/** Reasons of a condition that mean a property. */
const PROPERTY_REASONS = [
  'MissingProperty',
  'PropertyForbidden',
  'PropertyRefused',
  'UnreadableProperty',
]

/**
 * The problem of a valid Configuration: it has no handler, or the handler refuses it.
 * @param loaded the names of the handlers that this agent runs, in any process
 */
export function handlerProblem(
  { spec, status }: Configuration,
  loaded: readonly string[],
): Problem | undefined {
  const at = 'spec.discoveryHandler'
  const { name } = spec.discoveryHandler
  for (const { reason, message, ...condition } of status?.conditions ?? []) {
    if (condition.status !== 'False') continue
    if (reason === 'InvalidDetails') return { path: `${at}.discoveryDetails`, message }
    if (PROPERTY_REASONS.includes(reason)) return { path: `${at}.discoveryProperties`, message }
    // A handler in its own process registers in a moment.
    if (reason === 'NoHandler' && !loaded.includes(name)) {
      const similar = nearest(name, loaded)
      return {
        path: `${at}.name`,
        message: similar === undefined ? message : `${message}; did you mean ${similar}?`,
      }
    }
  }
  return undefined
}

interface ReportOptions {
  readonly loaded: readonly string[]
  sourceOf(key: ObjectKey): ConfigurationSource | undefined
  readonly log: Logger
  readonly signal: AbortSignal
}

/** Logs each problem once, with its file, as problems of the files themselves. */
export function reportHandlerProblems(
  configurations: ObjectCache<Configuration>,
  { loaded, sourceOf, log, signal }: ReportOptions,
): void {
  const logged = new Map<ObjectKey, string>()
  configurations.onChange((key) => {
    const configuration = configurations.get(key)
    const problem = configuration && handlerProblem(configuration, loaded)
    if (problem === undefined) return void logged.delete(key)
    const { path, message } = problem
    if (logged.get(key) === message) return
    logged.set(key, message)
    const source = sourceOf(key)
    log.error(
      { file: source?.file, ...source?.placeOf(path), path, error: message },
      'configuration has no usable handler',
    )
  }, signal)
}
