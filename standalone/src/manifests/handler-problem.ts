import type { ObjectCache } from '@akrijs/agent'
import type { Configuration, Problem } from '@akrijs/api'
import type { ObjectKey } from '@akrijs/kube'
import { type Logger, nearest } from '@akrijs/runtime'

/**
 * What is wrong with a Configuration that can be read: nobody is there to serve it, or its handler refuses it.
 * @param loaded the names of handlers that this agent has loaded, or starts in processes of their own
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
    if (reason === 'MissingProperty' || reason === 'UnreadableProperty')
      return { path: `${at}.discoveryProperties`, message }
    // One that runs in a process of its own registers in a moment.
    if (reason === 'NoHandler' && !loaded.includes(name)) {
      const meant = nearest(name, loaded)
      return {
        path: `${at}.name`,
        message: meant === undefined ? message : `${message}; did you mean ${meant}?`,
      }
    }
  }
  return undefined
}

export interface TellOptions {
  readonly loaded: readonly string[]
  fileOf(key: ObjectKey): string | undefined
  readonly log: Logger
  readonly signal: AbortSignal
}

/** Logs each problem once, with its file, as what is wrong with the files themselves. */
export function tellHandlerProblems(
  configurations: ObjectCache<Configuration>,
  { loaded, fileOf, log, signal }: TellOptions,
): void {
  const said = new Map<ObjectKey, string>()
  configurations.onChange((key) => {
    const configuration = configurations.get(key)
    const problem = configuration && handlerProblem(configuration, loaded)
    if (problem === undefined) return void said.delete(key)
    const { path, message } = problem
    if (said.get(key) === message) return
    said.set(key, message)
    log.error({ file: fileOf(key), path, error: message }, 'configuration cannot be served')
  }, signal)
}
