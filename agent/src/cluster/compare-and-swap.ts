import { INSTANCES, type Instance, missingFields } from '@akrijs/api'
import { ApiError, type ObjectKey, type Reflector, type Resource } from '@akrijs/kube'
import type { Clock } from '@akrijs/runtime'
import { ClusterBusyError, OutdatedResourceError } from '../errors.js'
import type { InstanceStep } from '../instances/instance-steps.js'

interface CompareAndSwapOptions {
  readonly api: Resource
  readonly cache: Pick<Reflector<Instance>, 'get' | 'observe' | 'forget' | 'isStray'>
  readonly clock: Clock
  /** The time limit of one answer, in milliseconds: the kubelet waits for a claim. */
  readonly answerMs: number
}

/** The longest wait between one attempt and the next, in milliseconds. */
const CROWD_MS = 1000
/** Attempts of one change when other writers are faster. */
const MAX_ATTEMPTS = 30

/** Changes Instances by compare-and-swap. */
export class CompareAndSwap {
  readonly #options: CompareAndSwapOptions
  readonly #random: () => number

  constructor(options: CompareAndSwapOptions, { random = Math.random } = {}) {
    this.#options = options
    this.#random = random
  }

  /**
   * Carries out the decision for the cached Instance. If another writer was faster, decides again
   * for the Instance on the server. A decision without a write needs the Instance of the server
   * too, because the cache may be stale.
   * @throws ClusterBusyError, OutdatedResourceError; ApiError if the server refuses the write
   * itself
   */
  async change<T>(
    key: ObjectKey,
    decide: (instance: Instance | undefined) => InstanceStep<T>,
  ): Promise<T> {
    const { cache, clock } = this.#options
    let instance = cache.get(key)
    let fresh = false
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const step = decide(instance)
      let refusal: ApiError | undefined
      if ('done' in step) {
        if (fresh) return step.done
      } else {
        refusal = await this.#write(key, step)
        if (refusal === undefined) return step.result
      }
      // With many writers, each needs a moment without the others.
      if (attempt > 1) await clock.sleep(this.#random() * Math.min(CROWD_MS, 10 * 2 ** attempt))
      const now = await this.#read(key)
      // No other writer was faster: the server refuses the write itself.
      if (refusal !== undefined && refusal.status !== 409 && fresh && isSame(now, instance))
        throw 'subresource' in step && refusal.status === 404 ? outdated(refusal) : refusal
      instance = now
      fresh = true
    }
    throw new ClusterBusyError(
      `Instance ${key} was changed by other writers before each attempt to change it`,
    )
  }

  /** Takes over an answer of the server. @returns undefined if the answer is no Instance */
  wrote(object: unknown): Instance | undefined {
    return this.#options.cache.observe(object)
  }

  /** Also adds the fields that agents of early versions did not write. */
  async #read(key: ObjectKey): Promise<Instance | undefined> {
    const { api, cache, answerMs } = this.#options
    const found = await api.get(key, { timeoutMs: answerMs })
    if (found === undefined) {
      cache.forget(key)
      return undefined
    }
    const instance = this.wrote(found)
    const missing = missingFields(found)
    if (instance === undefined || missing === undefined) return instance
    const { uid, resourceVersion } = instance.metadata
    const patch = { metadata: { uid, resourceVersion }, spec: missing }
    try {
      return this.wrote(await api.patch(key, 'merge', patch, { timeoutMs: answerMs }))
    } catch (error) {
      if (!ApiError.is(error)) throw error
      // The next write shows the reason, or the Instance has changed.
      return instance
    }
  }

  /** @returns the refusal of the server; undefined after a success */
  async #write<T>(
    key: ObjectKey,
    step: Exclude<InstanceStep<T>, { readonly done: T }>,
  ): Promise<ApiError | undefined> {
    const { api, cache, answerMs } = this.#options
    try {
      if ('subresource' in step) {
        const { patch, subresource } = step
        const written = cache.observe(
          await api.patch(key, 'json', patch, { subresource, timeoutMs: answerMs }),
        )
        // A server drops fields that its schema does not have, without an error.
        if (written !== undefined && written.status?.brokerInfoSlots === undefined) throw outdated()
      } else if ('patch' in step)
        this.wrote(await api.patch(key, 'json', step.patch, { timeoutMs: answerMs }))
      else {
        const { uid, resourceVersion } = step.remove.metadata
        // An Instance that is already gone is a success too.
        await api.delete(key, { uid, resourceVersion }, { propagationPolicy: 'Background' })
        // No watch shows the deletion.
        if (cache.isStray(key)) await this.#read(key)
      }
      return undefined
    } catch (error) {
      // 422: a test of the patch failed. 409: a precondition, or a concurrent write. 404: the
      // Instance is gone.
      if (error instanceof ApiError && [404, 409, 422].includes(error.status)) return error
      throw error
    }
  }
}

function isSame(now: Instance | undefined, before: Instance | undefined): boolean {
  return now?.metadata.resourceVersion === before?.metadata.resourceVersion
}

/** The server's custom resource lacks `status.brokerInfo`. */
function outdated(cause?: unknown): OutdatedResourceError {
  const message =
    `the custom resource ${INSTANCES.plural}.${INSTANCES.group} has no status.brokerInfo: ` +
    'apply the one of this version'
  return new OutdatedResourceError(message, { cause })
}
