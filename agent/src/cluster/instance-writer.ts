import { INSTANCES, type Instance } from '@akrijs/api'
import {
  ApiError,
  type JsonPatch,
  type ObjectKey,
  type Reflector,
  type Resource,
} from '@akrijs/kube'
import type { Clock } from '@akrijs/runtime'
import { ClusterBusyError, OutdatedResourceError } from '../errors.js'

export interface InstanceWriterOptions {
  readonly api: Resource
  readonly cache: Reflector<Instance>
  readonly clock: Clock
  /** Of [0, 1). */
  readonly random: () => number
  /** How long one answer of the server may take, in milliseconds: the kubelet waits for a claim. */
  readonly answerMs: number
  /** Told of each Instance in which something has changed that its Configuration counts. */
  onWritten(instance: Instance): void
}

/** The longest wait between one attempt and the next, in milliseconds. */
const CROWD_MS = 1000
/** How often a write is tried anew on what it finds when another one was faster. */
const MAX_ATTEMPTS = 30

/** What to do about an Instance: nothing more, or a write, and what that means if it succeeds. */
type Step<T> =
  | { readonly done: T }
  | { readonly patch: JsonPatch; readonly result: T }
  | { readonly patch: JsonPatch; readonly subresource: 'status'; readonly result: T }
  | { readonly remove: Instance; readonly result: T }

/** Changes Instances if they are still as they were read, or else as they are then. */
export class InstanceWriter {
  readonly #options: InstanceWriterOptions

  constructor(options: InstanceWriterOptions) {
    this.#options = options
  }

  /**
   * Does what `decide` says of the Instance as it is known; where another one was faster, of the Instance as it is on the
   * server then. An answer that writes nothing is given on what the server has, because the cache may be behind.
   * @throws ClusterBusyError, OutdatedResourceError; ApiError where the server does not want the write itself
   */
  async change<T>(key: ObjectKey, decide: (instance: Instance | undefined) => Step<T>): Promise<T> {
    const { api, cache, clock, random, answerMs } = this.#options
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
      // Where many are at it, each needs a moment in which no other one is.
      if (attempt > 1) await clock.sleep(random() * Math.min(CROWD_MS, 10 * 2 ** attempt))
      const found = await api.get(key, { timeoutMs: answerMs })
      const now = found === undefined ? undefined : this.wrote(found)
      // Nobody was faster: it is the write itself that the server does not want.
      if (
        refusal?.status === 422 &&
        fresh &&
        now?.metadata.resourceVersion === instance?.metadata.resourceVersion
      )
        throw refusal
      // It is there, and has no such part.
      if (
        refusal?.status === 404 &&
        'subresource' in step &&
        now?.metadata.uid === instance?.metadata.uid
      ) {
        if (now !== undefined) throw outdated(refusal)
      }
      instance = now
      fresh = true
    }
    throw new ClusterBusyError(
      `Instance ${key} was changed by others each time that it was to be changed`,
    )
  }

  /** Takes over what the server answered. @returns undefined where that is no Instance */
  wrote(object: unknown): Instance | undefined {
    const instance = this.#options.cache.observe(object)
    if (instance !== undefined) this.#options.onWritten(instance)
    return instance
  }

  /** @returns why the server refused it; undefined where it is written */
  async #write<T>(
    key: ObjectKey,
    step: Exclude<Step<T>, { readonly done: T }>,
  ): Promise<ApiError | undefined> {
    const { api, cache, answerMs } = this.#options
    try {
      if ('subresource' in step) {
        const { patch, subresource } = step
        // Nothing that is counted in the status of its Configuration.
        cache.observe(await api.patch(key, 'json', patch, { subresource, timeoutMs: answerMs }))
      } else if ('patch' in step)
        this.wrote(await api.patch(key, 'json', step.patch, { timeoutMs: answerMs }))
      else {
        const { uid, resourceVersion } = step.remove.metadata
        // Gone already is as good.
        await api.delete(key, { uid, resourceVersion }, { propagationPolicy: 'Background' })
      }
      return undefined
    } catch (error) {
      // A test that failed is 422; 409 is a precondition, or another write in the same moment; 404: it is gone.
      if (error instanceof ApiError && [404, 409, 422].includes(error.status)) return error
      throw error
    }
  }
}

/** The server has no place for what workloads report. */
export function outdated(cause?: unknown): OutdatedResourceError {
  const message = `the custom resource ${INSTANCES.plural}.${INSTANCES.group} has no status.brokerInfo: apply the one of this version`
  return new OutdatedResourceError(message, { cause })
}
