import { INSTANCES, type Instance, isUnlabelled, labelPatch, missingFields } from '@akrijs/api'
import {
  ApiError,
  keyOf,
  type NodeName,
  type ObjectKey,
  type Reflector,
  type Resource,
} from '@akrijs/kube'
import type { Clock, Logger } from '@akrijs/runtime'
import { ClusterBusyError, OutdatedResourceError } from '../errors.js'
import type { InstanceStep } from '../instances/instance-steps.js'

interface CompareAndSwapOptions {
  readonly api: Resource
  readonly cache: Pick<Reflector<Instance>, 'get' | 'observe' | 'forget' | 'isStray'>
  readonly clock: Clock
  readonly log: Logger
  readonly node: NodeName
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
  #hasWarned = false

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
      const now = await this.read(key)
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

  /** Reads an Instance, also one that no watch shows. */
  async read(key: ObjectKey, signal?: AbortSignal): Promise<Instance | undefined> {
    const { api, cache, answerMs } = this.#options
    const found = await api.get(key, { timeoutMs: answerMs, signal })
    if (found !== undefined) return this.complete(found, signal)
    cache.forget(key)
    return undefined
  }

  /**
   * Takes over an Instance, and adds what programs of early versions do not write: fields, and the
   * labels of an Instance that this node may see. An Instance that cannot be written stays as it
   * is.
   * @param object as the API server returns it
   */
  async complete(object: unknown, signal?: AbortSignal): Promise<Instance | undefined> {
    const { api, node, log, answerMs } = this.#options
    const instance = this.wrote(object)
    if (instance === undefined) return undefined
    const { shared, nodes } = instance.spec
    const isToLabel = isUnlabelled(instance) && (shared || nodes.includes(node))
    const spec = missingFields(object)
    if (!isToLabel && spec === undefined) return instance
    const metadata = { uid: instance.metadata.uid }
    const patch = { ...(isToLabel ? labelPatch(instance) : { metadata }), spec }
    try {
      const key = keyOf(instance)
      return this.wrote(await api.patch(key, 'merge', patch, { timeoutMs: answerMs, signal }))
    } catch (error) {
      if (!ApiError.is(error)) throw error
      const fields = { instance: instance.metadata.name, patch, err: error }
      log[this.#hasWarned ? 'debug' : 'warn'](fields, 'labels or fields of Instance not written')
      this.#hasWarned = true
      return instance
    }
  }

  /** @returns the refusal of the server; undefined after a success */
  async #write<T>(
    key: ObjectKey,
    step: Exclude<InstanceStep<T>, { readonly done: T }>,
  ): Promise<ApiError | undefined> {
    const { api, cache, answerMs: timeoutMs } = this.#options
    try {
      if ('remove' in step) {
        const { uid, resourceVersion } = step.remove.metadata
        // An Instance that is already gone is a success too.
        await api.delete(key, { uid, resourceVersion }, { propagationPolicy: 'Background' })
        // No watch shows the deletion.
        if (cache.isStray(key)) await this.read(key)
        return undefined
      }
      const { patch, result: _, ...target } = step
      const written = this.wrote(await api.patch(key, 'json', patch, { ...target, timeoutMs }))
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
