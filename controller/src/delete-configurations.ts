import { CONFIGURATIONS } from '@akrijs/api'
import { type ApiClient, ApiError, keyIn, listPages, type ObjectKey, Resource } from '@akrijs/kube'
import type { Clock, Logger } from '@akrijs/runtime'
import { ConfigurationsLeftError, Failures } from './errors.js'

interface DeleteConfigurationsOptions {
  readonly client: ApiClient
  readonly clock: Clock
  readonly log: Logger
  /** How long to wait for Configurations with finalizers, in milliseconds. */
  readonly limitMs: number
}

/** Between two lists, while the agents withdraw what they offer, in milliseconds. */
const INTERVAL_MS = 500
/** Configurations of one list; the next list has others. */
const PAGE_SIZE = 500

/**
 * Deletes the Configurations of all namespaces, and waits until they are gone: programs that still
 * run withdraw their offers then.
 * @throws ConfigurationsLeftError if some are left, or the API server refuses
 */
export async function deleteConfigurations(
  { client, clock, log, limitMs }: DeleteConfigurationsOptions,
  signal: AbortSignal,
): Promise<void> {
  const configurations = new Resource(client, CONFIGURATIONS)
  const deleted = new Set<ObjectKey>()
  const endsAt = clock.monotonicMs() + limitMs
  for (;;) {
    let problem: unknown
    let left: readonly ObjectKey[] = []
    try {
      left = await listed(client, configurations, signal)
      const failures = new Failures()
      for (const key of left) {
        const isDone = configurations.delete(key, undefined, { signal }).then(() => true)
        if (!(await failures.of(isDone))) continue
        if (!deleted.has(key)) log.info({ configuration: key }, 'Configuration deleted')
        deleted.add(key)
      }
      if (left.length === 0) return
      failures.throwFirst()
    } catch (error) {
      signal.throwIfAborted()
      problem = error
    }
    if (clock.monotonicMs() >= endsAt) throw new ConfigurationsLeftError(left, problem)
    await clock.sleep(INTERVAL_MS, signal)
  }
}

/** @returns nothing if the cluster has no such resource */
async function listed(
  client: ApiClient,
  configurations: Resource,
  signal: AbortSignal,
): Promise<ObjectKey[]> {
  const pages = listPages(
    { client, path: configurations.path(), pageSize: PAGE_SIZE },
    undefined,
    signal,
  )
  try {
    for await (const { objects } of pages) return objects.flatMap((object) => keyIn(object) ?? [])
  } catch (error) {
    if (!ApiError.is(error, 404)) throw error
  }
  return []
}
