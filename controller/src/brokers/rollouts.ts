import { isDeepStrictEqual } from 'node:util'
import type { Instance, RollingUpdate } from '@akrijs/api'
import { keyOf, type ObjectKey, type ReconcileResult } from '@akrijs/kube'
import { Listeners } from '@akrijs/runtime'
import { isDeleted, type Pod } from '../kubernetes-objects.js'
import { specHashOf } from '../labels.js'
import { ownerIdOf } from '../owners.js'
import { earliest, requeueAt } from '../requeue.js'
import type { Term } from '../term.js'
import { historyOf } from './broker-history.js'
import { type PodTemplate, planInstance, podTemplateOf } from './instance-plan.js'
import type { PodPlan } from './pod-plan.js'

/** The last plan of a Configuration: any replica makes the same one from the same objects. */
interface Rollout {
  /** The hash of the spec that the plan is for. */
  readonly hash: string | undefined
  /** The uids of the Pods that may be replaced now. */
  readonly update: ReadonlySet<string>
  readonly progress: RolloutProgress
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
 * Which working broker Pods of an earlier spec may be replaced now: a few of a Configuration at a
 * time. A look at all brokers of a Configuration, whose answer the plan of each Instance asks for.
 */
export class Rollouts {
  readonly #term: Term
  readonly #wake: (instance: ObjectKey) => void
  readonly #plans = new Map<ObjectKey, Rollout>()
  /** When the next plan may be made, by `monotonicMs`. */
  readonly #dueAt = new Map<ObjectKey, number>()
  readonly #listeners = new Listeners<[configuration: ObjectKey]>()

  /** @param wake reconciles the brokers of an Instance, one of which may be replaced now */
  constructor(term: Term, wake: (instance: ObjectKey) => void) {
    this.#term = term
    this.#wake = wake
  }

  /** The progress at the last plan. */
  of(key: ObjectKey): RolloutProgress {
    return this.#plans.get(key)?.progress ?? NO_PROGRESS
  }

  /** Whether a Pod may be replaced now by one of the spec with this hash. */
  permits(key: ObjectKey, hash: string | undefined, { metadata }: Pod): boolean {
    const plan = this.#plans.get(key)
    return plan !== undefined && plan.hash === hash && plan.update.has(metadata.uid)
  }

  /** Calls back after the progress of a Configuration has changed. */
  onChange(listener: (configuration: ObjectKey) => void, signal: AbortSignal): void {
    this.#listeners.add(listener, signal)
  }

  async reconcile(key: ObjectKey, signal: AbortSignal): Promise<ReconcileResult> {
    const { state, clock, sights } = this.#term
    const configuration = state.configurations.cache.get(key)
    if (configuration === undefined) {
      this.#plans.delete(key)
      this.#dueAt.delete(key)
      return {}
    }
    const startedAt = clock.monotonicMs()
    const waitMs = (this.#dueAt.get(key) ?? 0) - startedAt
    if (waitMs > 0) return { requeueAfterMs: waitMs }
    const template = podTemplateOf(state.workloadSpec(configuration))
    const found = isDeleted(configuration) ? [] : state.ownInstancesOf(key, configuration)
    const instances = this.#isRunning(found, template) ? found : []
    // Without these answers nothing more may be replaced.
    this.#set(key, { hash: undefined, update: new Set(), progress: this.of(key) })
    for (const instance of instances) await this.#findAnnounced(instance, signal)
    const plans = instances
      .sort((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1))
      .map((instance) => ({ instance, ...planInstance(instance, template, this.#term) }))
    const { update, isBlocked, missing } = planRollout(plans, template.maxUnavailable)
    const now = clock.monotonicMs()
    this.#dueAt.set(key, now + Math.max(PLAN_MS, PLAN_PARTS * (now - startedAt)))
    const blockedMs = sights.ageMs(`roll-out of ${key}`, String(isBlocked))
    const isSlow = isBlocked && blockedMs >= SLOW_MS
    const uids = update.flatMap(({ update: pod }) => pod?.metadata.uid ?? [])
    this.#set(key, {
      hash: template.hash,
      update: new Set(uids),
      progress: { isBlocked, isSlow, missing },
    })
    for (const { instance } of update) this.#wake(keyOf(instance))
    const recheckAt = plans.reduce<number | undefined>(
      (first, { recheckAt: at }) => earliest(first, at),
      isBlocked && !isSlow ? now + SLOW_MS - blockedMs : undefined,
    )
    return requeueAt(recheckAt, now)
  }

  /**
   * Reads the Pods again whose deletion the Instance announces, and that are there: after a request
   * without an answer, or a change of the leader, such a Pod may be gone, whatever the cache has.
   */
  async #findAnnounced(instance: Instance, signal: AbortSignal): Promise<void> {
    const { pods } = this.#term.state
    const { left } = historyOf(instance)
    for (const pod of pods.ownedBy(ownerIdOf('Instance', instance))) {
      const isAnnounced = left[pod.targetNode ?? '']?.uid === pod.metadata.uid
      if (isAnnounced && !isDeleted(pod)) await pods.refresh(pod, signal)
    }
  }

  /** Whether there are Pods of an earlier spec: a quick look before the plans. */
  #isRunning(instances: readonly Instance[], { hash, strategy }: PodTemplate): boolean {
    if (hash === undefined || strategy === 'OnDelete') return false
    const { pods } = this.#term.state
    return instances
      .flatMap((instance) => pods.ownedBy(ownerIdOf('Instance', instance)))
      .some((pod) => ![undefined, hash].includes(specHashOf(pod)))
  }

  #set(key: ObjectKey, plan: Rollout): void {
    const before = this.of(key)
    this.#plans.set(key, plan)
    if (!isDeepStrictEqual(before, plan.progress)) this.#listeners.tell(key)
  }
}

type InstancePlan = Pick<PodPlan, 'update' | 'waits' | 'desired' | 'missing'>

interface RolloutPlan<T> {
  /** The plans whose `update` is carried out now. */
  readonly update: readonly T[]
  /** Whether Pods wait for brokers that are missing. */
  readonly isBlocked: boolean
  readonly missing: number
}

const DEFAULT_SHARE = '10%'

/** As in a Deployment, a percentage is rounded down. At least 1: a roll-out has to go on. */
export function unavailableBrokers(
  limit: RollingUpdate['maxUnavailable'] = DEFAULT_SHARE,
  desired: number,
): number {
  const count =
    typeof limit === 'number' ? limit : Math.floor((desired * Number.parseInt(limit, 10)) / 100)
  return Math.max(1, count)
}

/**
 * Which brokers of a Configuration are replaced now. A pure function of the plans for its
 * Instances, and so of the Pods: another replica goes on where the roll-out stands.
 * @param plans of all Instances, always in the same order
 */
export function planRollout<T extends InstancePlan>(
  plans: readonly T[],
  limit: RollingUpdate['maxUnavailable'],
): RolloutPlan<T> {
  const sum = (number: (plan: T) => number) =>
    plans.reduce((before, plan) => before + number(plan), 0)
  const missing = sum((plan) => plan.missing)
  const room = Math.max(
    0,
    unavailableBrokers(
      limit,
      sum(({ desired }) => desired),
    ) - missing,
  )
  const candidates = plans.filter(({ update }) => update !== undefined)
  return {
    update: candidates.slice(0, room),
    isBlocked: candidates.length > 0 ? room === 0 : missing > 0 && plans.some(({ waits }) => waits),
    missing,
  }
}
