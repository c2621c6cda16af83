import { isDeepStrictEqual } from 'node:util'
import type { Instance } from '@akrijs/api'
import { ApiError, type ObjectKey, type ReconcileResult } from '@akrijs/kube'
import { type Clock, Listeners } from '@akrijs/runtime'
import type { ClusterState } from '../cluster-state.js'
import { isDeleted, type Pod } from '../kubernetes-objects.js'
import { specHashOf } from '../labels.js'
import { ownerIdOf } from '../owners.js'
import { earliest, requeueAt } from '../requeue.js'
import type { InstanceBrokers } from './instance-brokers.js'
import { type PodTemplate, podTemplateOf } from './pod-template.js'
import { planRollout } from './rollout-plan.js'

interface RolloutsOptions {
  readonly state: ClusterState
  readonly clock: Clock
  readonly brokers: Pick<InstanceBrokers, 'plan' | 'update'>
}

export interface RolloutProgress {
  /** Whether brokers of an earlier spec wait for brokers that are missing. */
  readonly isBlocked: boolean
  /** Whether they have waited for long. */
  readonly isSlow: boolean
  /** How many brokers the roll-out waits for. */
  readonly missing: number
}

const NO_PROGRESS: RolloutProgress = { isBlocked: false, isSlow: false, missing: 0 }

/** After so long without progress a roll-out is stuck, whatever the reason, in milliseconds. */
const SLOW_MS = 10 * 60_000
/** The least time between two plans of a Configuration, in milliseconds. */
const PLAN_MS = 100
/** Plans take at most one of so many parts of the time: each looks at all brokers. */
const PLAN_PARTS = 10

/**
 * Replaces working broker Pods of an earlier spec, a few of a Configuration at a time. All else
 * about broker Pods does {@link InstanceBrokers}, also the creation of their successors.
 */
export class Rollouts {
  readonly #options: RolloutsOptions
  readonly #progress = new Map<ObjectKey, RolloutProgress>()
  /** Since when a roll-out is blocked, by `monotonicMs`. */
  readonly #blockedSince = new Map<ObjectKey, number>()
  /** When the next plan may be made, by `monotonicMs`. */
  readonly #dueAt = new Map<ObjectKey, number>()
  /** The Pod whose deletion has no answer: it may be gone, whatever the cache has. */
  readonly #unanswered = new Map<ObjectKey, Pod>()
  readonly #listeners = new Listeners<[configuration: ObjectKey]>()

  constructor(options: RolloutsOptions) {
    this.#options = options
  }

  /** The progress at the last plan. */
  of(key: ObjectKey): RolloutProgress {
    return this.#progress.get(key) ?? NO_PROGRESS
  }

  /** Calls back after the progress of a Configuration has changed. */
  onChange(listener: (configuration: ObjectKey) => void, signal: AbortSignal): void {
    this.#listeners.add(listener, signal)
  }

  async reconcile(key: ObjectKey, signal: AbortSignal): Promise<ReconcileResult> {
    const { state, clock, brokers } = this.#options
    const configuration = state.configurations.cache.get(key)
    if (configuration === undefined) {
      for (const map of [this.#progress, this.#blockedSince, this.#dueAt, this.#unanswered])
        map.delete(key)
      return {}
    }
    const unanswered = this.#unanswered.get(key)
    if (unanswered !== undefined) {
      // A Pod that stays may be the right one by now: only the plan decides.
      await state.pods.refresh(unanswered, signal)
      this.#unanswered.delete(key)
    }
    const startedAt = clock.monotonicMs()
    const waitMs = (this.#dueAt.get(key) ?? 0) - startedAt
    if (waitMs > 0) return { requeueAfterMs: waitMs }
    const template = podTemplateOf(state.workloadSpec(configuration))
    const instances = isDeleted(configuration) ? [] : state.ownInstancesOf(key, configuration)
    const plans = (this.#isRunning(instances, template) ? instances : [])
      .sort((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1))
      .map((instance) => ({ instance, ...brokers.plan(instance, template) }))
    const { update, isBlocked, missing } = planRollout(plans, template.maxUnavailable)
    const plannedAt = clock.monotonicMs()
    this.#dueAt.set(key, plannedAt + Math.max(PLAN_MS, PLAN_PARTS * (plannedAt - startedAt)))
    const slowInMs = this.#slowInMs(key, isBlocked)
    this.#set(key, { isBlocked, isSlow: slowInMs === 0, missing })

    for (const { instance, update: pod } of update) {
      // The spec may be another one by now: its change starts the next reconcile.
      const { generation } = state.configurations.cache.get(key)?.metadata ?? {}
      if (pod === undefined || generation !== configuration.metadata.generation) break
      await this.#delete(key, instance, pod, signal)
    }
    const now = clock.monotonicMs()
    const slowAt = slowInMs ? now + slowInMs : undefined
    const recheckAt = plans.reduce<number | undefined>(
      (first, plan) => earliest(first, plan.recheckAt),
      slowAt,
    )
    return requeueAt(recheckAt, now)
  }

  /**
   * Deletes a Pod. After an interrupted request the Pod may be gone, and no other Pod must be
   * deleted instead: the next plan is made after a look at the Pod.
   */
  async #delete(key: ObjectKey, instance: Instance, pod: Pod, signal: AbortSignal): Promise<void> {
    this.#unanswered.set(key, pod)
    try {
      await this.#options.brokers.update(instance, pod, signal)
    } catch (error) {
      if (ApiError.is(error) && error.status < 500) this.#unanswered.delete(key)
      throw error
    }
    this.#unanswered.delete(key)
  }

  /** Whether there are Pods of an earlier spec: a quick look before the plans. */
  #isRunning(instances: readonly Instance[], { hash, strategy }: PodTemplate): boolean {
    if (hash === undefined || strategy === 'OnDelete') return false
    const { pods } = this.#options.state
    return instances
      .flatMap((instance) => pods.ownedBy(ownerIdOf('Instance', instance)))
      .some((pod) => ![undefined, hash].includes(specHashOf(pod)))
  }

  /** In how many milliseconds the roll-out is slow; undefined if it is not blocked. */
  #slowInMs(key: ObjectKey, isBlocked: boolean): number | undefined {
    if (!isBlocked) {
      this.#blockedSince.delete(key)
      return undefined
    }
    const now = this.#options.clock.monotonicMs()
    const since = this.#blockedSince.get(key) ?? now
    this.#blockedSince.set(key, since)
    return Math.max(0, since + SLOW_MS - now)
  }

  #set(key: ObjectKey, progress: RolloutProgress): void {
    const before = this.of(key)
    this.#progress.set(key, progress)
    if (!isDeepStrictEqual(before, progress)) this.#listeners.tell(key)
  }
}
