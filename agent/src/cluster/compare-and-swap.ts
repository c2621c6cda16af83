import { INSTANCES, type Instance } from '@akrijs/api'
import { ApiError, type ObjectKey } from '@akrijs/kube'
import type { Clock } from '@akrijs/runtime'
import { ClusterBusyError, OutdatedResourceError } from '../errors.js'
import type { InstanceStep } from '../instances/instance-steps.js'
import type { WatchedInstances } from './watched-instances.js'

interface CompareAndSwapOptions {
  readonly instances: Pick<WatchedInstances, 'answerMs' | 'api' | 'cache' | 'read'>
  readonly clock: Clock
  /** Of [0, 1). @default Math.random */
  readonly random?: () => number
}

/** The longest wait between one attempt and the next, in milliseconds. */
const CROWD_MS = 1000
/** Attempts of one change when other writers are faster. */
const MAX_ATTEMPTS = 30

/**
 * Changes an Instance: carries out the decision for the cached Instance. If another writer was
 * faster, decides again for the Instance on the server. A decision without a write needs the
 * Instance of the server too, because the cache may be stale.
 * @throws ClusterBusyError, OutdatedResourceError; ApiError if the server refuses the write itself
 */
export async function compareAndSwap<T>(
  { instances, clock, random = Math.random }: CompareAndSwapOptions,
  key: ObjectKey,
  decide: (instance: Instance | undefined) => InstanceStep<T>,
): Promise<T> {
  let instance = instances.cache.get(key)
  let fresh = false
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
    const step = decide(instance)
    let refusal: ApiError | undefined
    if ('done' in step) {
      if (fresh) return step.done
    } else {
      refusal = await write(instances, key, step)
      if (refusal === undefined) return step.result
    }
    // With many writers, each needs a moment without the others.
    if (attempt > 1) await clock.sleep(random() * Math.min(CROWD_MS, 10 * 2 ** attempt))
    const now = await instances.read(key)
    // No other writer was faster: the server refuses the write itself.
    const isSame = now?.metadata.resourceVersion === instance?.metadata.resourceVersion
    if (refusal !== undefined && refusal.status !== 409 && fresh && isSame)
      throw 'subresource' in step && refusal.status === 404 ? outdated(refusal) : refusal
    instance = now
    fresh = true
  }
  throw new ClusterBusyError(
    `Instance ${key} was changed by other writers before each attempt to change it`,
  )
}

/** @returns the refusal of the server; undefined after a success */
async function write<T>(
  instances: CompareAndSwapOptions['instances'],
  key: ObjectKey,
  step: Exclude<InstanceStep<T>, { readonly done: T }>,
): Promise<ApiError | undefined> {
  const { answerMs: timeoutMs, api, cache } = instances
  try {
    if ('remove' in step) {
      const { uid, resourceVersion } = step.remove.metadata
      // An Instance that is already gone is a success too.
      await api.delete(key, { uid, resourceVersion }, { propagationPolicy: 'Background' })
      // No watch shows the deletion.
      if (cache.isStray(key)) await instances.read(key)
      return undefined
    }
    const { patch, result: _, ...target } = step
    const written = cache.observe(await api.patch(key, 'json', patch, { ...target, timeoutMs }))
    // A server drops fields that its schema does not have, without an error.
    if ('subresource' in step && written && written.status?.brokerInfoSlots === undefined)
      throw outdated()
    return undefined
  } catch (error) {
    // 422: a test of the patch failed. 409: a precondition, or a concurrent write. 404: the
    // Instance is gone.
    if (error instanceof ApiError && [404, 409, 422].includes(error.status)) return error
    throw error
  }
}

/** The server's custom resource lacks `status.brokerInfo`. */
function outdated(cause?: unknown): OutdatedResourceError {
  const message =
    `the custom resource ${INSTANCES.plural}.${INSTANCES.group} has no status.brokerInfo: ` +
    'apply the one of this version'
  return new OutdatedResourceError(message, { cause })
}
