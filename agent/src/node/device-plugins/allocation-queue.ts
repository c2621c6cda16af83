import { setImmediate } from 'node:timers/promises'
import type { Logger } from '@akrijs/runtime'
import type { ContainerAllocation } from '../../core/plugins/allocation.js'
import type { PluginBehaviour } from '../../core/plugins/plugin-behaviour.js'
import type { SlotClaims } from '../../core/slots/slot-claims.js'
import type { AgentObserver } from '../../ports/observer.js'

interface AllocationQueueOptions {
  readonly behaviour: Pick<PluginBehaviour, 'level' | 'allocate'>
  readonly claims: SlotClaims
  readonly log: Logger
  readonly observer: AgentObserver
  /**
   * Called after each allocation. A kubelet whose request was refused needs the list again, changed
   * or not.
   */
  advertise(options: { readonly repeat: boolean }): void
}

/**
 * Runs allocations of one plugin in order: a failed allocation must not release a slot that another
 * allocation uses.
 */
export class AllocationQueue {
  readonly #options: AllocationQueueOptions
  #last: Promise<unknown> = Promise.resolve()

  constructor(options: AllocationQueueOptions) {
    this.#options = options
  }

  /** @param requests the ids for each container */
  add(requests: readonly (readonly string[])[]): Promise<readonly ContainerAllocation[]> {
    const allocation = this.#last.then(() => this.#allocate(requests))
    this.#last = allocation.catch(() => undefined)
    return allocation
  }

  async #allocate(ids: readonly (readonly string[])[]): Promise<readonly ContainerAllocation[]> {
    const { behaviour, claims, log, observer, advertise } = this.#options
    let repeat = false
    try {
      const allocations = await claims.forRequest((ofRequest) => behaviour.allocate(ids, ofRequest))
      observer.allocated(behaviour.level, 'granted')
      log.info({ ids }, 'allocated')
      return allocations
    } catch (error) {
      observer.allocated(behaviour.level, 'refused')
      log.warn({ ids, err: error }, 'allocation refused')
      repeat = true
      throw error
    } finally {
      advertise({ repeat })
      // The list is sent before the answer: the kubelet may admit the next Pod right after the
      // answer.
      await setImmediate()
    }
  }
}
